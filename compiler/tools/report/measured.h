// Compares a plan's predicted times with those measured by `trainer --timeline`, op by op.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// Times of an op over all layers and micro-batches of a step.
struct MeasuredOp {
  std::string region, op, runs;
  double times = 0;                    // per step
  double measured = 0, predicted = 0;  // seconds per step
};

struct Measured {
  std::string device;
  int threads = 0;
  std::int64_t first_step = 0, steps = 0;
  double step_seconds = 0;      // of one step, from its first launch to the end of its last; without CUDA graphs
  double launch_seconds = 0;    // the part of step_seconds spent in launches of the passes
  std::vector<MeasuredOp> ops;  // largest difference first
};

/// Returns the number of ranks that wrote the timeline. Throws Failure(usage) if `file` is not a timeline, or if it
/// belongs to a trainer with another fingerprint.
int measured_ranks(const std::filesystem::path& file, const std::string& fingerprint);

/// Reads a timeline. `plan`: made for the same number of ranks. Throws Failure(usage) if the file has ops that the plan
/// lacks, or if their counts differ.
Measured read_measured(const std::filesystem::path& file, const plan::Plan& plan);

std::string measured_text(const plan::Plan& plan, const Measured& measured);
nlohmann::ordered_json measured_json(const plan::Plan& plan, const Measured& measured);

}  // namespace llmc::report
