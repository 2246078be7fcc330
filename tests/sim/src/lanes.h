// Runs a kernel: each lane of a block is a fiber, one block (or all blocks of a cluster) at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "shared_layout.h"
#include "vector_types.h"

namespace sim {

/// Bytes of shared memory that a block may have, and without cudaFuncSetAttribute.
constexpr std::size_t kMostShared = std::size_t{227} << 10, kPlainShared = std::size_t{48} << 10;

/// Has no padding, of which g++ 14 says in copies that it is uninitialised.
struct LaunchShape {
  dim3 grid, block;
  std::size_t cluster = 1;  // blocks per cluster; divides the grid
  std::size_t shared = 0;   // bytes of llmc::block_memory
  const SharedLayout* declared = nullptr;
};

/// Calls `lane` once for each lane of the grid, in its own fiber. Reports lanes that wait forever. One-dimensional
/// launches only, like llmc's.
void run_kernel(const LaunchShape& shape, const std::function<void()>& lane);

}  // namespace sim
