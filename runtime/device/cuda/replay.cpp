#include "device/replay.h"

#include "device/cuda/check.h"
#include "device/cuda/stream.h"

namespace llmc {

struct Replay::Impl {
  Device& device;
  cudaStream_t stream;
  bool warm = false;
  cudaGraphExec_t graph = nullptr;

  void capture(const std::function<void()>& work);
};

Replay::Replay(Device& device) : impl_(new Impl{device, device.stream().handle}) {}

Replay::~Replay() {
  if (!impl_->graph) return;
  // A running graph must not be destroyed. Errors cannot be reported from a destructor.
  cudaStreamSynchronize(impl_->stream);
  cudaGraphExecDestroy(impl_->graph);
}

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
