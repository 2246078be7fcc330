#include "device/replay.h"

#include <utility>

#include "device/cuda/check.h"
#include "device/cuda/stream.h"

namespace llmc {

struct Replay::Impl {
  Device& device;
  cudaStream_t stream;
  bool warm = false;
  cudaGraphExec_t graph = nullptr;

  void capture(const std::function<void()>& work);
  cudaError_t forget();
};

Replay::Replay(Device& device) : impl_(new Impl{device, device.stream().handle}) {}

// Errors cannot be reported from a destructor.
Replay::~Replay() { impl_->forget(); }

cudaError_t Replay::Impl::forget() {
  warm = false;
  if (!graph) return cudaSuccess;
  const cudaError_t error = cudaStreamSynchronize(stream);  // a running graph must not be destroyed
  cudaGraphExecDestroy(std::exchange(graph, nullptr));
  return error;
}

void Replay::forget() { check(impl_->forget(), "cudaStreamSynchronize"); }

void Replay::Impl::capture(const std::function<void()>& work) {
  // Captures this thread only, because the loader's threads may continue meanwhile.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t recorded = nullptr;
  try {
    work();
  } catch (...) {
    if (cudaStreamEndCapture(stream, &recorded) == cudaSuccess) cudaGraphDestroy(recorded);
    throw;
  }
  check(cudaStreamEndCapture(stream, &recorded), "cudaStreamEndCapture");
  // Without the flag a graph ignores its streams' priorities, and collectives wait until a GEMM's blocks are done.
  const cudaError_t error = cudaGraphInstantiate(&graph, recorded, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(recorded);
  check(error, "cudaGraphInstantiate");
}

void Replay::run(const std::function<void()>& work, bool eager) {
  if (!impl_->warm || eager || impl_->device.profiled()) {
    work();
    impl_->warm = true;
    return;
  }
  if (!impl_->graph) impl_->capture(work);
  check(cudaGraphLaunch(impl_->graph, impl_->stream), "cudaGraphLaunch");
}

}  // namespace llmc
