#include "device/cuda/check.h"

#include <string>

#include "error.h"

namespace llmc {
namespace {

struct Advice {
  Exit code;
  const char* before;  // the call and CUDA's own message
  const char* after;
};

Advice advice(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorInitializationError:
    case cudaErrorDevicesUnavailable:
      return {Exit::toolchain, "no CUDA device: ",
              ". The trainer needs an NVIDIA GPU and a driver as new as its CUDA toolkit (nvidia-smi shows both). "
              "Compile for target.kind: cpu to train without one"};
    case cudaErrorInvalidDevice:
      return {Exit::toolchain, "", ". nvidia-smi -L lists the GPUs; CUDA_VISIBLE_DEVICES hides some"};
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
      return {Exit::toolchain,
              "the kernels were not compiled for this GPU: ", ". Add its architecture to target.arch and recompile"};
    case cudaErrorMemoryAllocation:
      return {Exit::does_not_fit, "the GPU is out of memory: ",
              ". Make batch.micro_batch or memory.budget smaller, or end the other programs on it"};
    default:
      // Kernel errors surface at a later call.
      return {Exit::internal, "",
              ". An earlier kernel may have caused it. Set CUDA_LAUNCH_BLOCKING=1 to stop at that kernel"};
  }
}

}  // namespace

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // clears errors that are not sticky, so that the next call starts clean
  const Advice about = advice(error);
  throw Failure(about.code, about.before + std::string(call) + " says \"" + cudaGetErrorString(error) + "\" (" +
                                cudaGetErrorName(error) + ")" + about.after);
}

}  // namespace llmc
