// Owners of what CUDA hands out: pinned host memory and events.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "device/cuda/check.h"

namespace llmc {

/// Host memory that copies reach without the processor.
class Pinned {
 public:
  explicit Pinned(std::size_t bytes) { check(cudaHostAlloc(&memory_, bytes, cudaHostAllocDefault), "cudaHostAlloc"); }
  Pinned(Pinned&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  ~Pinned() {
    if (memory_) cudaFreeHost(memory_);
  }
  std::byte* get() const { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_ = nullptr;
};

/// A point of a stream. One that was never recorded counts as reached.
class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "cudaEventCreateWithFlags"); }
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ~Event() {
    if (handle_) cudaEventDestroy(handle_);
  }
  void record(cudaStream_t stream) { check(cudaEventRecord(handle_, stream), "cudaEventRecord"); }
  /// Keeps the host until the point is reached.
  void wait() const { check(cudaEventSynchronize(handle_), "cudaEventSynchronize"); }
  /// Keeps what is put on `stream` from now on until the point is reached.
  void hold(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, handle_, 0), "cudaStreamWaitEvent"); }

 private:
  cudaEvent_t handle_ = nullptr;
};

}  // namespace llmc
