// Source text of every kernel of a plan, specialised or as template with params.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "compiler/emit/project.h"

namespace llmc::emit {

struct KernelSource {
  std::string name;
  std::string declaration;  // for kernels.h: types are spelled out, without names of params
  std::string text;
};

std::vector<KernelSource> kernel_sources(const plan::Plan& plan, const SourceTree& tree, Style style);

/// Throws Failure(internal) if the file cannot be read.
std::string read_text(const std::filesystem::path& file);

}  // namespace llmc::emit
