// Runs a kernel: each lane of a block is a fiber, a block (or all blocks of a cluster) at a time.
#pragma once

#include <cstdint>
#include <functional>

#include "vector_types.h"

namespace sim {

struct LaunchShape {
  dim3 grid, block;
  unsigned cluster = 1;  // blocks of one, which divides the grid
};

/// `lane` is called once for each lane of the grid, in a fiber of its own. Reports lanes that wait for ever for others.
/// One-dimensional launches only, as llmc's are.
void run_kernel(const LaunchShape& shape, const std::function<void()>& lane);

}  // namespace sim
