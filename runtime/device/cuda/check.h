// Errors of the CUDA runtime as Failures that name the call and say what to do.
#pragma once

#include <cuda_runtime_api.h>

namespace llmc {

/// Throws when `error` is not cudaSuccess. A machine that cannot run the program: Failure(toolchain); out of device
/// memory: Failure(does_not_fit); anything else, such as a kernel's illegal address: Failure(internal).
/// `call` is the name of the function that returned it, "cudaMemcpyAsync" or "kernel rms_norm_forward".
void check(cudaError_t error, const char* call);

}  // namespace llmc
