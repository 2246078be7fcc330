// Emitting and compiling a spec, as several commands do it.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "compiler/build/compile.h"
#include "compiler/build/lock.h"
#include "compiler/cli/options.h"

namespace llmc::cli {

struct BuildOptions {
  std::string out, style = "specialised", dump;
  bool bundle = false;
  emit::Probes probes = emit::Probes::none;
  int jobs = 0;  // 0: one a core
};

/// --jobs
CLI::Option* add_jobs(CLI::App* command, BuildOptions& options);

/// Held while the folder that the options name is written.
build::FolderLock lock_output(const Planned& planned, const BuildOptions& options);

/// Emits into the folder that the options name, or build/<name>; that folder.
std::filesystem::path emit_to(const Planned& planned, const BuildOptions& options, const build::Home& home);

/// Throws Failure(toolchain) where a trainer for a GPU could not start here.
void check_gpu(const spec::Spec& spec);

/// Emits and builds what is not built yet; says on standard error what it does.
build::CompileResult compile(const Planned& planned, const BuildOptions& options);

}  // namespace llmc::cli
