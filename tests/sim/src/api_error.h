// Stores errors of calls for cudaGetLastError.
#pragma once

#include "cuda_runtime_api.h"

namespace sim {

/// Stores an error, and returns it.
cudaError_t returned(cudaError_t error);

}  // namespace sim
