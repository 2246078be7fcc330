// Execution order on one GPU: a CUDA stream.
#pragma once

#include <cuda_runtime_api.h>

#include "device/device.h"
#include "device/timeline.h"

namespace llmc {

struct Stream {
  cudaStream_t handle = nullptr;
  LaunchListener* listener = nullptr;  // while a step is timed
};

}  // namespace llmc
