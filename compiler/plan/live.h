// Computes the live bytes of the arena while a step runs: fixed buffers, tensors that layers keep, and transients.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Bytes that a run of a region (a layer, a chunk) starts and stops keeping for the backward pass: a layer's residual
/// stream and its slab.
struct RegionLife {
  std::size_t opens = 0, frees = 0;  // bytes
};

/// By region index.
std::vector<RegionLife> region_lives(const Plan& plan);

/// A run of a region in a micro-batch or in the optimizer's step after it.
struct RegionRun {
  std::size_t region = 0;  // index into Graph::regions
  std::int64_t layer = 0;  // of a layer's region
  std::size_t kept = 0;    // bytes that layers keep while it runs
};

/// Lists one micro-batch and the optimizer in order. A region of loss chunks is listed once.
std::vector<RegionRun> pass_runs(const Plan& plan);

struct Live {
  std::size_t fixed = 0;  // bytes that are always live: weights, gradients, moments, inputs, gather buffers
  std::size_t peak = 0;   // most live bytes while a launch of a step runs; at most the arena
};

Live live_bytes(const Plan& plan);

}  // namespace llmc::plan
