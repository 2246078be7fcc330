// Builds an emitted project with this machine's compilers: only what changed, by argument lists, no make.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "compiler/build/toolchain.h"
#include "compiler/emit/project.h"
#include "compiler/plan/plan.h"
#include "spec/resolved.h"

namespace llmc::build {

struct CompileResult {
  std::filesystem::path trainer;
  int compiled = 0, reused = 0;  // translation units
  bool linked = false;
  double seconds = 0;
  std::map<std::string, std::filesystem::path> reports;  // what ptxas said of each kernel, by its name; none on the cpu
};

using Progress = std::function<void(const std::string&)>;

/// Compiles and links `folder`, which write_project() has filled. Objects live in folder/objects under the hash of all
/// that they are made of (source, headers, flags, compiler version), so a changed learning rate compiles no kernel;
/// ptxas' report of a kernel lies beside its object. Throws Failure(toolchain) with the compiler's own output.
CompileResult compile_project(const plan::Plan& plan, const std::filesystem::path& folder, const Home& home, int jobs,
                              const Progress& progress);

/// The spec's own path, absolute and without symbolic links, as a trainer has it noted.
std::filesystem::path spec_file(const spec::Resolved& resolved);

/// Tells the trainer in `folder` where that is, what relative paths of its spec are relative to, and from which files
/// with which content it was read, in files beside it (program/place.h): a path of this machine is in no source and in
/// no binary.
void note_spec(const std::filesystem::path& folder, const spec::Resolved& resolved);

}  // namespace llmc::build
