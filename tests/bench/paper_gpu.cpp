// An H100 on paper: answers PyTorch's calls of the CUDA runtime and driver before and while torch.compile generates
// code for the device. Loaded first (LD_PRELOAD), under the driver's name. Its memory is the host's, and it refuses
// every kernel.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <utility>

static cudaError_t last_error = cudaSuccess;

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

// Called by a compiled <<<>>> before launching.
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) {
  return last_error = cudaErrorNotSupported;
}

cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) {
  return last_error = cudaErrorNotSupported;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**) {
  return last_error = cudaErrorNotSupported;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}

static CUresult not_supported() { return CUDA_ERROR_NOT_SUPPORTED; }

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool known = !std::strcmp(name, "cuDevicePrimaryCtxGetState");
  *function = known ? reinterpret_cast<void*>(cuDevicePrimaryCtxGetState) : reinterpret_cast<void*>(not_supported);
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int) { return cudaSuccess; }

/// Properties of the H100 SXM, which decide how reductions are split and which tiles fit.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "NVIDIA H100 80GB HBM3");
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->sharedMemPerMultiprocessor = 228 << 10;
  properties->l2CacheSize = 50 << 20;
  properties->totalGlobalMem = 80ull << 30;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  *pointer = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  return *pointer ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status, unsigned long long*, cudaGraph_t*,
                                     const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
}
