// Runs a kernel: each lane of a block is a fiber, one block (or all blocks of a cluster) at a time.
#pragma once

#include <cstdint>
#include <functional>

#include "vector_types.h"

namespace sim {

struct LaunchShape {
  dim3 grid, block;
  unsigned cluster = 1;  // blocks per cluster; divides the grid
};

/// Calls `lane` once for each lane of the grid, in its own fiber. Reports lanes that wait forever. One-dimensional
/// launches only, like llmc's.
void run_kernel(const LaunchShape& shape, const std::function<void()>& lane);

}  // namespace sim
