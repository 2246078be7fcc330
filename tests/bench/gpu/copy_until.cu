#include <cstdint>

#include "copy_until.h"

namespace {

constexpr int kCopyThreads = 1024;
constexpr int kCopyShared = 200 << 10;  // of an SM: leaves no space for a GEMM's block there

/// Each block copies a part.
__global__ void __launch_bounds__(kCopyThreads)
    copy_share(const uint4* from, uint4* to, std::size_t count, const volatile int* stop, unsigned long long* bytes) {
  extern __shared__ uint4 occupied[];
  if (count == 0) to[0] = occupied[0];  // keeps the array from being optimised away
  const std::size_t share = count / gridDim.x, begin = blockIdx.x * share;
  constexpr std::size_t kChunk = 4 * kCopyThreads;
  __shared__ int stopped;
  for (std::size_t at = 0;; at = at + 2 * kChunk <= share ? at + kChunk : 0) {
    const std::size_t i = begin + at + threadIdx.x;
    uint4 held[4];
    for (int j = 0; j < 4; ++j) held[j] = from[i + static_cast<std::size_t>(j) * kCopyThreads];
    for (int j = 0; j < 4; ++j) to[i + static_cast<std::size_t>(j) * kCopyThreads] = held[j];
    if (threadIdx.x == 0) {
      atomicAdd(bytes, 2 * kChunk * sizeof(uint4));
      stopped = *stop;
    }
    __syncthreads();
    if (stopped != 0) return;
    __syncthreads();
  }
}

}  // namespace

cudaError_t copy_until(int sms, const void* from, void* to, std::size_t bytes, const volatile int* stop, void* moved,
                       cudaStream_t stream) {
  const cudaError_t status = cudaFuncSetAttribute(copy_share, cudaFuncAttributeMaxDynamicSharedMemorySize, kCopyShared);
  if (status != cudaSuccess) return status;
  copy_share<<<static_cast<unsigned>(sms), kCopyThreads, kCopyShared, stream>>>(
      static_cast<const uint4*>(from), static_cast<uint4*>(to), bytes / sizeof(uint4), stop,
      static_cast<unsigned long long*>(moved));
  return cudaGetLastError();
}
