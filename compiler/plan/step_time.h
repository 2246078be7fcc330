// How long a step is predicted to take: its launches' prices, walked in the order of the emitted step on its two
// streams.
#pragma once

#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Of a plan that has its launches. Collectives run beside the passes where the emitted step has them on a stream of
/// their own (emit/order_printer.h), and are waited for where it waits.
StepTime step_time(const Plan& plan);

/// What one of a step's two streams does for a while.
struct Span {
  enum class Does { compute, send, wait } does = Does::compute;
  std::size_t region = 0;     // index into Graph::regions; of no meaning for `wait`
  std::int64_t layer = 0;     // that it computes
  int pass = 0;               // 0: the first micro-batch; 1: the second, for all between it and the last; then the last
  double begin = 0, end = 0;  // seconds from the step's begin
};

/// The walk that step_time() takes. Of micro-batches that are alike there is one.
std::vector<Span> step_spans(const Plan& plan);

/// Seconds of one run of each region: a layer, a chunk of the loss. By region index.
std::vector<double> region_seconds(const Plan& plan);

}  // namespace llmc::plan
