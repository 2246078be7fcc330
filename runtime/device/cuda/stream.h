// The order in which work runs on one GPU: a CUDA stream.
#pragma once

#include <cuda_runtime_api.h>

#include "device/device.h"
#include "device/timeline.h"

namespace llmc {

struct Stream {
  cudaStream_t handle = nullptr;
  LaunchListener* listener = nullptr;  // of a step that is timed
};

}  // namespace llmc
