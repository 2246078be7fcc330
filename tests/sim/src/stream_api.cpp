// Streams, events, copies, graphs and launches, in the interface of the CUDA runtime.
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "api_error.h"
#include "cuda_runtime_api.h"
#include "guard.h"
#include "kernel_call.h"
#include "lanes.h"
#include "memory.h"
#include "report.h"
#include "shadow.h"
#include "stream.h"

using namespace sim;

struct CUgraph_st {
  Capture capture;
};

struct CUgraphExec_st {
  Capture capture;
  std::vector<CUstream_st*> branches;  // all but the first, which is the stream of a launch
};

namespace {

/// Limits of the launches of a kernel.
struct Allowed {
  std::size_t shared;       // bytes
  std::size_t cluster = 8;  // blocks
};

Allowed& allowed(const void* function, const Kernel& kernel) {
  static auto& known = *new std::map<const void*, Allowed>;
  return known.try_emplace(function, Allowed{kPlainShared - kernel.declared().bytes}).first->second;
}

int attribute_of_device(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, attribute, device);
  return value;
}

const char* name_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice: return "copy to the device";
    case cudaMemcpyDeviceToHost: return "copy to the host";
    case cudaMemcpyDeviceToDevice: return "copy on the device";
    default: return "copy on the host";
  }
}

cudaMemcpyKind kind_of(const void* dst, const void* src) {
  const bool from = is_device(src), to = is_device(dst);
  return to ? (from ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
            : (from ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
}

void run_copy(void* dst, const void* src, std::size_t bytes) {
  if (in_heap(reinterpret_cast<std::uintptr_t>(src))) touch(Access::read, src, bytes);
  if (in_heap(reinterpret_cast<std::uintptr_t>(dst))) touch(Access::write, dst, bytes);
  std::memmove(dst, src, bytes);
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  const Guard guard;
  if (!bytes) return cudaSuccess;
  const cudaMemcpyKind actual = kind_of(dst, src);
  if (kind != cudaMemcpyDefault && kind != actual) return returned(cudaErrorInvalidValue);
  CUstream_st& stream = stream_of(handle);
  if (!stream.capture && actual == cudaMemcpyHostToDevice && !is_pinned(src)) {
    // Pageable memory is copied to a buffer before the call returns.
    const auto* begin = static_cast<const std::byte*>(src);
    const auto buffer = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
    enqueue(stream, name_of(actual), [=] { run_copy(dst, buffer->data(), bytes); });
    return cudaSuccess;
  }
  enqueue(stream, name_of(actual), [=] { run_copy(dst, src, bytes); });
  if (actual == cudaMemcpyDeviceToHost && !is_pinned(dst)) return cudaStreamSynchronize(handle);  // as the driver does
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(dst, src, bytes, kind, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

cudaError_t cudaMemsetAsync(void* dst, int value, std::size_t bytes, cudaStream_t handle) {
  const Guard guard;
  if (!bytes) return cudaSuccess;
  if (!is_device(dst)) return returned(cudaErrorInvalidValue);
  enqueue(stream_of(handle), "memset", [=] {
    touch(Access::write, dst, bytes);
    std::memset(dst, value, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaMemset(void* dst, int value, std::size_t bytes) { return cudaMemsetAsync(dst, value, bytes, nullptr); }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  const Guard guard;
  *stream = create_stream();
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  const Guard guard;
  *stream = create_stream(priority);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Guard guard;
  destroy_stream(&stream_of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const Guard guard;
  CUstream_st& stream = stream_of(handle);
  if (stream.capture) return returned(cudaErrorStreamCaptureUnsupported);
  run_all(stream);
  host_saw(stream.clock);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const Guard guard;
  CUstream_st& stream = stream_of(handle);
  if (stream.capture) return returned(cudaErrorStreamCaptureUnsupported);
  if (advance(stream)) return cudaErrorNotReady;  // repeated queries make progress
  host_saw(stream.clock);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const Guard guard;
  run_everything();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Guard guard;
  return returned(wait(stream_of(stream), *event));
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  const Guard guard;
  enqueue(stream_of(stream), "host function", [=] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->timing = !(flags & cudaEventDisableTiming);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Guard guard;
  record(stream_of(stream), *event);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Guard guard;
  if (event->capture) return returned(cudaErrorStreamCaptureUnsupported);
  if (!event->moment) return cudaSuccess;
  run_until(*event->moment);
  host_saw(event->moment->clock);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Guard guard;
  if (event->capture) return returned(cudaErrorStreamCaptureUnsupported);
  if (event->moment && !event->moment->reached) {
    advance(*event->moment->stream);
    return cudaErrorNotReady;
  }
  if (event->moment) host_saw(event->moment->clock);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const Guard guard;
  if (!start->timing || !end->timing || !start->moment || !end->moment) return returned(cudaErrorInvalidResourceHandle);
  if (!start->moment->reached || !end->moment->reached) return returned(cudaErrorNotReady);
  *milliseconds = static_cast<float>(end->moment->milliseconds - start->moment->milliseconds);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  const Guard guard;
  if (!handle) return returned(cudaErrorStreamCaptureUnsupported);  // the default stream cannot be captured
  CUstream_st& stream = stream_of(handle);
  if (stream.capture) return returned(cudaErrorStreamCaptureUnsupported);
  stream.capture = std::make_shared<Capture>();
  stream.capture->branches.assign(1, &stream);  // g++ 14 takes a list's copy to be out of its bounds
  stream.branch = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const Guard guard;
  CUstream_st& stream = stream_of(handle);
  if (!stream.capture || stream.branch != 0) return returned(cudaErrorStreamCaptureUnmatched);
  const std::shared_ptr<Capture> capture = stream.capture;
  capture->ended = true;
  for (CUstream_st* branch : capture->branches) branch->capture = nullptr;
  *graph = nullptr;
  if (!joined(*capture)) return returned(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{*capture};
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Guard guard;
  *status = stream_of(stream).capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  const Guard guard;
  log_line("instantiation of a graph");
  if (graph->capture.prioritised && !(flags & cudaGraphInstantiateFlagUseNodePriority))
    report(
        "a graph of streams with different priorities is instantiated without cudaGraphInstantiateFlagUseNodePriority, "
        "and ignores them");
  *exec = new CUgraphExec_st{graph->capture, {}};
  for (std::size_t branch = 1; branch < graph->capture.branches.size(); ++branch)
    (*exec)->branches.push_back(create_stream());
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes) return returned(cudaErrorNotSupported);
  *count = 0;
  for (const Capture::Call& call : graph->capture.calls) *count += call.run != nullptr;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  const Guard guard;
  CUstream_st& stream = stream_of(handle);
  if (stream.capture) return returned(cudaErrorStreamCaptureUnsupported);
  log_line("launch of a graph");
  std::vector<CUstream_st*> branches = {&stream};
  branches.insert(branches.end(), exec->branches.begin(), exec->branches.end());
  push_graph(exec->capture, branches);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const Guard guard;
  for (CUstream_st* branch : exec->branches) destroy_stream(branch);
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  const Guard guard;
  const Kernel* kernel = Kernel::find(function);
  if (!kernel) return returned(cudaErrorInvalidDeviceFunction);
  LaunchShape shape = {config->gridDim, config->blockDim};
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) shape.cluster = config->attrs[i].val.clusterDim.x;
  const bool flat = shape.grid.y == 1 && shape.grid.z == 1 && shape.block.y == 1 && shape.block.z == 1;
  if (!flat || !shape.grid.x || !shape.block.x || shape.block.x > kLanes)
    return returned(cudaErrorInvalidConfiguration);
  shape.shared = config->dynamicSmemBytes;
  shape.declared = &kernel->declared();
  if (shape.declared->bytes > kPlainShared)
    report("kernel " + kernel->name() + " declares " + std::to_string(shape.declared->bytes) +
           " bytes of shared memory; a block has 49152 without asking for more");
  if (shape.shared > allowed(function, *kernel).shared) return returned(cudaErrorInvalidValue);
  const std::size_t most = attribute_of_device(cudaDevAttrClusterLaunch) ? allowed(function, *kernel).cluster : 1;
  if (!shape.cluster || shape.cluster > most || shape.grid.x % shape.cluster)
    return returned(cudaErrorInvalidClusterSize);
  const KernelArguments packed = kernel->pack(arguments);
  enqueue(stream_of(config->stream), kernel->name(), [=] {
    run_kernel(shape, [kernel, &packed] { (*kernel)(packed); });
    spend(kKernelMs);
  });
  return cudaSuccess;
}
cudaError_t cudaFuncGetName(const char** name, const void* function) {
  const Guard guard;
  const Kernel* kernel = Kernel::find(function);
  if (!kernel) return returned(cudaErrorInvalidDeviceFunction);
  *name = kernel->mangled();
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  const Guard guard;
  const Kernel* kernel = Kernel::find(function);
  if (!kernel) return returned(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed)
    allowed(function, *kernel).cluster = value ? kMostBlocks : 8;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  const long long most = attribute_of_device(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  if (value < 0 || value + static_cast<long long>(kernel->declared().bytes) > most)
    return returned(cudaErrorInvalidValue);
  allowed(function, *kernel).shared = static_cast<std::size_t>(value);
  return cudaSuccess;
}

}  // extern "C"
