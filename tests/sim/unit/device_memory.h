// Shared by the simulator's own tests: typed device memory, launches, and the form of reports.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "cuda_runtime_api.h"
#include "device/cuda/launch.h"
#include "kernels.h"
#include "report.h"

namespace llmc {

/// `count` elements, freed by the destructor.
template <class T>
class Memory {
 public:
  explicit Memory(std::size_t count) : count_(count) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, count * sizeof(T)), cudaSuccess);
    data_ = static_cast<T*>(memory);
  }
  explicit Memory(const std::vector<T>& values) : Memory(values.size()) {
    cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  operator T*() const { return data_; }
  /// All elements, once everything that is queued has run.
  std::vector<T> host() const {
    std::vector<T> values(count_);
    cudaDeviceSynchronize();
    cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  T* data_;
  std::size_t count_;
};

struct TestStream : Stream {
  explicit TestStream(int priority = 0) { cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking, priority); }
  ~TestStream() { cudaStreamDestroy(handle); }
};

struct Event {
  Event() { cudaEventCreateWithFlags(&handle, cudaEventDisableTiming); }
  ~Event() { cudaEventDestroy(handle); }
  cudaEvent_t handle = nullptr;
};

/// The cluster size is passed by a launch attribute.
template <class... Parameters, class... Arguments>
cudaError_t launch_cluster(const Stream& stream, Grid grid, unsigned cluster, void (*kernel)(Parameters...),
                           Arguments... arguments) {
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {cluster, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(grid.blocks);
  config.blockDim = dim3(grid.threads);
  config.stream = stream.handle;
  config.attrs = &attribute;
  config.numAttrs = 1;
  void* addresses[] = {&arguments...};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), addresses);
}

/// `statement` makes the simulator end the process with a message that matches `pattern`.
#define EXPECT_REPORT(statement, pattern) EXPECT_EXIT(statement, testing::ExitedWithCode(sim::kReported), pattern)

}  // namespace llmc
