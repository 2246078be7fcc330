// Converts errors of the CUDA runtime to Failures that name the call and give advice.
#pragma once

#include <cuda_runtime_api.h>

namespace llmc {

/// Throws if `error` is not cudaSuccess: Failure(toolchain) if the machine cannot run the program,
/// Failure(does_not_fit) if out of device memory, Failure(internal) for anything else, such as a kernel's illegal
/// address. `call` is the name of the function that returned it, "cudaMemcpyAsync" or "kernel rms_norm_forward".
void check(cudaError_t error, const char* call);

}  // namespace llmc
