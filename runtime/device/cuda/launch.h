// Launches a kernel on a GPU's stream by function call, without <<<>>>, so that one kernel source builds for every
// target.
#pragma once

#include "device/cuda/stream.h"

namespace llmc {

/// One-dimensional launches only: kernels stride over their rows, so any grid size is correct.
struct Grid {
  unsigned blocks, threads;  // threads: per block
  unsigned cluster = 1;      // blocks per cluster; divides `blocks`
  unsigned shared = 0;       // bytes of block_memory (device/cuda/block_memory.h)
};

/// `addresses`: of the kernel's arguments, each of exactly its parameter's type. Throws as check() does, naming the
/// kernel.
void launch_kernel(Stream& stream, Grid grid, const void* kernel, void** addresses);

/// Converts arguments to the kernel's parameter types, as in a call: CUDA itself copies bytes without checks.
template <class... Parameters, class... Arguments>
void launch(Stream& stream, Grid grid, void (*kernel)(Parameters...), const Arguments&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "as many arguments as the kernel has parameters");
  const auto run = [&](Parameters... values) {
    void* addresses[] = {const_cast<void*>(static_cast<const void*>(&values))..., nullptr};
    launch_kernel(stream, grid, reinterpret_cast<const void*>(kernel), addresses);
  };
  run(arguments...);
}

}  // namespace llmc
