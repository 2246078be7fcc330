// Errors of calls, kept for cudaGetLastError.
#pragma once

#include "cuda_runtime_api.h"

namespace sim {

/// Remembers an error, and returns it.
cudaError_t returned(cudaError_t error);

}  // namespace sim
