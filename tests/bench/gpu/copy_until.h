// A copy by one block per SM that lasts until the host ends it, to overlap with a GEMM.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

/// Copies `bytes` repeatedly on `sms` SMs until *stop, in host memory, is not 0. Adds the bytes read and written to
/// *moved (an unsigned long long on the device).
cudaError_t copy_until(int sms, const void* from, void* to, std::size_t bytes, const volatile int* stop, void* moved,
                       cudaStream_t stream);
