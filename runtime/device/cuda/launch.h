// Runs a kernel on a GPU's stream, by function call: no <<<>>>, so that the same kernel source builds for every target.
#pragma once

#include "device/cuda/stream.h"

namespace llmc {

/// One-dimensional launches only: kernels stride over their rows, so any grid is right.
struct Grid {
  unsigned blocks, threads;  // threads: of a block
  unsigned cluster = 1;      // blocks of one; divides `blocks`
};

/// `addresses`: of the kernel's arguments, each of exactly its parameter's type. Throws as check() does, naming the
/// kernel.
void launch_kernel(Stream& stream, Grid grid, const void* kernel, void** addresses);

/// Arguments are converted to the kernel's parameter types, as in a call: CUDA itself copies bytes and asks no
/// questions.
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
