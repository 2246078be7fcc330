// Lists the ops that a trainer runs, in order, for the interpreter and for checking the trainer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::float64 {

/// One run of one op.
struct ScheduledOp {
  std::size_t region = 0, op = 0;     // indices into the graph
  std::int64_t layer = 0, chunk = 0;  // 0 if the region has none
  std::int64_t step = 0, micro = 0;   // micro-batch of the step; step 0: before the first one
  bool first = true;                  // of the step's micro-batches, and of its chunks
};

/// Lists all launches of `steps` steps on one rank, starting with the initialisation of weights. With split masters a
/// checkpoint follows.
std::vector<ScheduledOp> scheduled_ops(const plan::Plan& plan, std::int64_t steps);

/// Prints "step 1, micro-batch 2, layer 0: op qkv_wgrad of layer_backward".
std::string text_of(const plan::Plan& plan, const ScheduledOp& launch);

/// Names what runs the op: "kernel rope of templates/rope.cu".
std::string what_runs(const plan::Plan& plan, const ScheduledOp& launch);

}  // namespace llmc::float64
