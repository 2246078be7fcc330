// The order in which work runs on one GPU: a CUDA stream.
#pragma once

#include <cuda_runtime_api.h>

#include "device/device.h"

namespace llmc {

struct Stream {
  cudaStream_t handle = nullptr;
};

}  // namespace llmc
