// How long a step is predicted to take: its launches' prices, walked in the order of the emitted step on its two
// streams.
#pragma once

#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Of a plan that has its launches. Collectives run beside the passes where the emitted step has them on a stream of
/// their own (emit/order_printer.h), and are waited for where it waits.
StepTime step_time(const Plan& plan);

/// Seconds of one run of each region: a layer, a chunk of the loss. By region index.
std::vector<double> region_seconds(const Plan& plan);

}  // namespace llmc::plan
