// Which bytes of the arena hold something while a step runs: what lies still, what layers keep, and transients.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// What a run of a region (a layer, a chunk) begins and ends to keep for the backward pass: the residual stream of a
/// layer and its slab.
struct RegionLife {
  std::size_t opens = 0, frees = 0;  // bytes
};

/// By region index.
std::vector<RegionLife> region_lives(const Plan& plan);

/// A run of a region in a micro-batch, or in the optimizer's turn behind it.
struct RegionRun {
  std::size_t region = 0;  // index into Graph::regions
  std::int64_t layer = 0;  // of a layer's region
  std::size_t kept = 0;    // bytes that layers keep while it runs
};

/// One micro-batch and the optimizer, in order; a region that runs once a chunk is there once.
std::vector<RegionRun> pass_runs(const Plan& plan);

struct Live {
  std::size_t fixed = 0;  // bytes that are alive all the time: weights, gradients, moments, inputs, windows
  std::size_t peak = 0;   // the most that is alive while a launch of a step runs; at most the arena
};

Live live_bytes(const Plan& plan);

}  // namespace llmc::plan
