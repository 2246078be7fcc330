// Emits and compiles a spec for the commands that share these steps.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "compiler/build/compile.h"
#include "compiler/build/project_lock.h"
#include "compiler/cli/specs.h"

namespace llmc::cli {

struct BuildOptions {
  std::string out, style = "specialised", dump;
  bool bundle = false;
  emit::Probes probes = emit::Probes::none;
  int jobs = 0;  // 0: one per core
};

/// Adds --jobs.
CLI::Option* add_jobs(CLI::App* command, int& jobs);

/// Throws Failure(spec) for a run that can be planned and not compiled.
void refuse_planned_only(const spec::Spec& spec);

/// Locks the output folder of the options while it is written. Refuses what is planned only.
build::ProjectLock lock_output(const Planned& planned, const BuildOptions& options);

/// Emits into the folder of the options, or build/<name>; returns that folder.
std::filesystem::path emit_to(const Planned& planned, const BuildOptions& options, const build::Home& home);

/// Throws Failure(toolchain) if a trainer for a GPU cannot start on this machine. Refuses what is planned only.
void check_gpu(const spec::Spec& spec);

/// Emits, and builds what is out of date; prints its steps to standard error.
build::CompileResult compile(const Planned& planned, const BuildOptions& options);

}  // namespace llmc::cli
