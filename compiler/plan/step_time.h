// Predicts how long a step takes: its launches' prices in the order of the schedule, on two streams.
#pragma once

#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Of a plan that has its launches. On CUDA collectives overlap the passes up to where the schedule waits for them.
StepTime step_time(const Plan& plan);

/// What one of a step's two streams does for a while.
struct Span {
  enum class Does { compute, send, wait } does = Does::compute;
  std::size_t region = 0;     // index into Graph::regions; of no meaning for `wait`
  std::int64_t layer = 0;     // that it computes
  int pass = 0;               // 0: the first micro-batch; 1: the second, for all between it and the last; then the last
  double begin = 0, end = 0;  // seconds from the step's begin
};

/// Lists the spans that step_time() adds up; of equal micro-batches one.
std::vector<Span> step_spans(const Plan& plan);

/// Seconds of one run of each region: a layer, a chunk of the loss. By region index.
std::vector<double> region_seconds(const Plan& plan);

}  // namespace llmc::plan
