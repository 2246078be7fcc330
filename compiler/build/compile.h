// Compiles an emitted project with this machine's compilers: only changed files, by argument lists, without make.
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
  std::map<std::string, std::filesystem::path> reports;  // ptxas output of each kernel, by name; empty on the cpu
};

using Progress = std::function<void(const std::string&)>;

/// Compiles and links `folder`, which write_project() has filled. Objects are kept in folder/objects, named by a hash
/// of source, headers, flags and compiler version: a changed learning rate compiles no kernel. ptxas' report of a
/// kernel is next to its object. Throws Failure(toolchain) with the compiler's own output.
CompileResult compile_project(const plan::Plan& plan, const std::filesystem::path& folder, const Home& home, int jobs,
                              const Progress& progress);

/// Returns the spec's own path, absolute and without symbolic links, as recorded for the trainer.
std::filesystem::path spec_file(const spec::Resolved& resolved);

/// Writes records (program/compiled_spec.h) next to the trainer in `folder`: its path, its spec's directory, and paths
/// and hashes of the files that the spec was read from. Sources and binaries contain no path of this machine.
void note_spec(const std::filesystem::path& folder, const spec::Resolved& resolved);

}  // namespace llmc::build
