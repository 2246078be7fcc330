// A copy that lasts until the host ends it, by one block an SM: what runs beside a product.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

/// Copies `bytes` again and again on so many SMs until *stop, which lies in the host's memory, is not 0; adds up in
/// *moved (an unsigned long long on the device) the bytes that it read and wrote.
cudaError_t copy_until(int sms, const void* from, void* to, std::size_t bytes, const volatile int* stop, void* moved,
                       cudaStream_t stream);
