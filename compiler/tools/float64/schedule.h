// Which ops a trainer runs, in order: what the interpreter goes through, and what the trainer is held to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::verify {

/// One run of one op.
struct Launch {
  std::size_t region = 0, op = 0;     // indices into the graph
  std::int64_t layer = 0, chunk = 0;  // 0 where the region has none
  std::int64_t step = 0, micro = 0;   // micro-batch of the step; step 0: before the first one
  bool first = true;                  // of the step's micro-batches, and of its chunks
};

/// All of `steps` steps on one rank, from drawing the weights on.
std::vector<Launch> launches_of(const plan::Plan& plan, std::int64_t steps);

/// "step 1, micro-batch 2, layer 0: op qkv_wgrad of layer_backward"
std::string text_of(const plan::Plan& plan, const Launch& launch);

/// Names what runs the op: "kernel rope of templates/rope.cu".
std::string what_runs(const plan::Plan& plan, const Launch& launch);

}  // namespace llmc::verify
