// Words of a command line that builds a trainer and starts it: which are compiled in, and which the trainer takes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/cli/specs.h"
#include "spec/resolved.h"

namespace llmc::cli {

/// Overrides of a command that starts trainers: those that the trainer is compiled with, those that are passed to the
/// run, and all of them with absolute paths. batch.tokens is in both lists if it decides an `auto`.
struct RunWords {
  std::vector<std::string> compiled, run_time, all;
};

/// Absolute path that a spec has for a key; nothing if the key's value is no path.
std::optional<std::string> absolute_path(const std::string& key, const spec::Resolved& resolved);

/// Checks all overrides together. `phases`: the spec that they are of, or one for each of its phases.
RunWords sort_words(const SpecArguments& arguments, std::span<const spec::Resolved> phases);

/// Checks arguments and data as this plan's trainer will, before anything is compiled for it. `command`: the
/// command as typed. Returns false after printing help or version if the arguments ask for it.
bool check_trainer_words(const Planned& planned, std::vector<std::string> words,
                         const std::vector<std::string>& command);

}  // namespace llmc::cli
