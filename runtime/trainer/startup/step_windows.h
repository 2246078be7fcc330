// Steps that --profile and --timeline select.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/options.h"

namespace llmc {

/// Drops --profile and --timeline if a run that resumes after `done` steps has trained steps that they name, or has too
/// few left before `stop` for a --timeline that names none: the same command resumes it. Returns a note for each.
std::vector<std::string> drop_past_windows(Options& options, std::int64_t done, std::int64_t stop);

/// Steps of --timeline: the requested ones, or some after the first ones, in which libraries load their code. The run
/// trains steps from `done` to `stop`. Throws Failure(usage) if they are not among these.
StepWindow timeline_steps(const Options& options, std::int64_t done, std::int64_t stop);

/// Throws Failure(usage) if the steps of --profile or --timeline are not of this run. Called before its folder is made.
void check_windows(const Options& options, std::int64_t done, std::int64_t stop);

}  // namespace llmc
