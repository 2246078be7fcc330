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

/// Texts of the records (program/compiled_spec.h) of a trainer in a project's folder: its path, its spec's directory,
/// and paths and hashes of the files that the spec was read from. Sources and binaries contain no path of this machine.
struct SpecNote {
  std::string directory, files;
};

/// Throws Failure(usage) for a path that a record cannot hold, because it has a line feed.
SpecNote spec_note(const std::filesystem::path& folder, const spec::Resolved& resolved);
void write_note(const std::filesystem::path& folder, const SpecNote& note);

}  // namespace llmc::build
