// A plan's predicted times beside those that `trainer --timeline` has measured, op by op.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// An op in all layers and micro-batches of a step.
struct MeasuredOp {
  std::string region, op, runs;
  double times = 0;                    // a step
  double measured = 0, predicted = 0;  // seconds of a step
};

struct Measured {
  std::string device;
  int threads = 0;
  std::int64_t first_step = 0, steps = 0;
  double step_seconds = 0;      // of one, from its first launch's turn to its end; without graphs
  double launch_seconds = 0;    // of these: in launches of the passes
  std::vector<MeasuredOp> ops;  // the largest difference first
};

/// How many ranks wrote the timeline. Throws Failure(usage) where `file` is none, or of a trainer with another
/// fingerprint.
int measured_ranks(const std::filesystem::path& file, const std::string& fingerprint);

/// `plan`: of so many ranks. Throws Failure(usage) where the file has ops that the plan has not, or runs more or less
/// often.
Measured read_measured(const std::filesystem::path& file, const plan::Plan& plan);

std::string measured_text(const plan::Plan& plan, const Measured& measured);
nlohmann::ordered_json measured_json(const plan::Plan& plan, const Measured& measured);

}  // namespace llmc::report
