// Owners of CUDA resources: pinned host memory and events.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>

#include "device/cuda/check.h"
#include "error.h"

namespace llmc {

/// Returns page-locked host memory, accessible by DMA, to be freed with cudaFreeHost. Throws Failure(does_not_fit) if
/// the host has no more of it, for which CUDA's error is that of a GPU without memory.
inline void* pin(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaHostAlloc(&memory, bytes > 0 ? bytes : 1, cudaHostAllocDefault);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // this error is not sticky
    throw Failure(Exit::does_not_fit, "the host cannot pin " + std::to_string(bytes) +
                                          " bytes of memory. A limit of its container, or of ulimit -l, may be lower "
                                          "than its memory");
  }
  check(error, "cudaHostAlloc");
  return memory;
}

/// Owner of page-locked host memory.
class Pinned {
 public:
  explicit Pinned(std::size_t bytes) : memory_(pin(bytes)) {}
  Pinned(Pinned&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  ~Pinned() {
    if (memory_) cudaFreeHost(memory_);
  }
  std::byte* get() const { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_ = nullptr;
};

/// An event on a stream. One that was never recorded counts as reached.
class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "cudaEventCreateWithFlags"); }
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ~Event() {
    if (handle_) cudaEventDestroy(handle_);
  }
  void record(cudaStream_t stream) { check(cudaEventRecord(handle_, stream), "cudaEventRecord"); }
  /// Blocks the host until the event is reached.
  void wait() const { check(cudaEventSynchronize(handle_), "cudaEventSynchronize"); }
  /// Makes later work on `stream` wait for the event.
  void hold(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, handle_, 0), "cudaStreamWaitEvent"); }

 private:
  cudaEvent_t handle_ = nullptr;
};

}  // namespace llmc
