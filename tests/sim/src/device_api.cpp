// The device, its memory and errors, in the interface of the CUDA runtime.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "api_error.h"
#include "cuda_profiler_api.h"
#include "cuda_runtime_api.h"
#include "guard.h"
#include "memory.h"
#include "nvtx3/nvToolsExt.h"
#include "shadow.h"
#include "stream.h"

using namespace sim;

namespace {

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
#define LLMC_ERROR(error, text) {error, #error, text}
constexpr ErrorText kErrors[] = {
    LLMC_ERROR(cudaSuccess, "no error"),
    LLMC_ERROR(cudaErrorInvalidValue, "invalid argument"),
    LLMC_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    LLMC_ERROR(cudaErrorInitializationError, "initialization error"),
    LLMC_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    LLMC_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    LLMC_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    LLMC_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    LLMC_ERROR(cudaErrorNotReady, "device not ready"),
    LLMC_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    LLMC_ERROR(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    LLMC_ERROR(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"),
    LLMC_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    LLMC_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    LLMC_ERROR(cudaErrorInvalidClusterSize, "cluster misconfiguration"),
    LLMC_ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    LLMC_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not begun in this stream"),
    LLMC_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    LLMC_ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    LLMC_ERROR(cudaErrorNotSupported, "operation not supported"),
};

cudaError_t last_error = cudaSuccess;
int current_device = 0;  // the only one that this process uses: each process has its own GPU, whatever its number
int range_depth = 0;

const ErrorText* find(cudaError_t error) {
  for (const ErrorText& known : kErrors)
    if (known.error == error) return &known;
  return nullptr;
}

/// The machine's numbers of the devices visible to this process: CUDA_VISIBLE_DEVICES, or all.
std::vector<int> visible_devices() {
  const char* text = std::getenv("LLMC_SIM_GPUS");
  const int count = text ? std::atoi(text) : 1;
  std::vector<int> devices;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::istringstream list(visible);
    for (std::string number; std::getline(list, number, ',');)
      if (const int device = std::atoi(number.c_str()); device < count) devices.push_back(device);
  } else {
    for (int device = 0; device < count; ++device) devices.push_back(device);
  }
  return devices;
}

/// Shared memory that a block may ask for, by the CUDA C++ Programming Guide's table of compute capabilities.
int most_shared(int capability) {
  switch (capability) {
    case 80:
    case 87: return 163 << 10;
    case 86:
    case 89:
    case 120:
    case 121: return 99 << 10;
    default: return 227 << 10;
  }
}

int device_count() { return static_cast<int>(visible_devices().size()); }

}  // namespace

namespace sim {

cudaError_t returned(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace sim

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(cudaError_t error) { return find(error) ? find(error)->name : "unrecognized error code"; }
const char* cudaGetErrorString(cudaError_t error) {
  return find(error) ? find(error)->text : "unrecognized error code";
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return *count > 0 ? cudaSuccess : returned(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) return returned(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= device_count()) return returned(cudaErrorInvalidDevice);
  const char* text = std::getenv("LLMC_SIM_CAPABILITY");
  const int capability = text ? std::atoi(text) : 90;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = capability / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *value = capability % 10; break;
    case cudaDevAttrMultiProcessorCount: *value = 132; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 << 10; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = most_shared(capability); break;
    case cudaDevAttrL2CacheSize: *value = 50 << 20; break;
    case cudaDevAttrClusterLaunch: *value = capability >= 90; break;
  }
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= device_count()) return returned(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "simulated GPU");
  const int number = visible_devices()[static_cast<std::size_t>(device)];
  std::memcpy(properties->uuid.bytes, &number, sizeof number);
  properties->totalGlobalMem = device_bytes_total();
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = 227 << 10;
  cudaDeviceGetAttribute(&properties->major, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(&properties->minor, cudaDevAttrComputeCapabilityMinor, 0);
  properties->multiProcessorCount = 132;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->l2CacheSize = 50 << 20;
  properties->memoryBusWidth = 6144;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const Guard guard;
  *memory = allocate(bytes, false);
  return returned(*memory ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* memory) {
  const Guard guard;
  if (!memory) return cudaSuccess;
  run_everything();
  return returned(release(memory, false) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  const Guard guard;
  *memory = bytes < kHeapBytes ? allocate(bytes, true) : nullptr;
  return returned(*memory ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* memory) {
  const Guard guard;
  if (!memory) return cudaSuccess;
  run_everything();
  return returned(release(memory, true) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  const Guard guard;
  *available = device_bytes_free();
  *total = device_bytes_total();
  return cudaSuccess;
}

cudaError_t cudaProfilerStart() {
  const Guard guard;
  log_line("profiler start");
  return cudaSuccess;
}
cudaError_t cudaProfilerStop() {
  const Guard guard;
  log_line("profiler stop");
  return cudaSuccess;
}
int nvtxRangePushA(const char* message) {
  const Guard guard;
  push_range(message);
  return range_depth++;
}
int nvtxRangePop() {
  const Guard guard;
  if (!range_depth) return -2;
  pop_range();
  return --range_depth;
}

}  // extern "C"
