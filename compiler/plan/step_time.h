// Predicts the time of a step: the prices of its launches in the order of the schedule, on two streams.
#pragma once

#include <optional>
#include <vector>

#include "compiler/plan/plan.h"
#include "program/matrix_owners.h"

namespace llmc::plan {

/// Predicts from a plan with launches. On CUDA, collectives overlap the passes until the schedule waits for them.
StepTime step_time(const Plan& plan);

/// Activity of one of a step's two streams over an interval.
struct StreamSpan {
  enum class Does { compute, send, wait } does = Does::compute;
  std::size_t region = 0;     // index into Graph::regions; meaningless for `wait`
  std::int64_t layer = 0;     // that it computes
  int pass = 0;               // 0: the first micro-batch; 1: the second, for all between it and the last; then the last
  double begin = 0, end = 0;  // seconds from the step's begin
};

/// Lists the spans that step_time() adds up; one for several equal micro-batches.
std::vector<StreamSpan> step_spans(const Plan& plan);

/// Returns who orthogonalises which matrix; nothing if the optimizer orthogonalises none.
std::optional<MatrixOwners> matrix_owners(const Plan& plan);

/// Returns the runs in a step of the regions of matrices on one rank, by region index; 0 of all other regions.
std::vector<std::int64_t> matrix_runs(const Plan& plan, int rank);

/// Returns the seconds of one run of each region (a layer, a chunk of the loss), by region index.
std::vector<double> region_seconds(const Plan& plan);

}  // namespace llmc::plan
