#include "device/cuda/check.h"

#include <string>
#include <string_view>

#include "error.h"

namespace llmc {
namespace {

constexpr std::string_view kFirstCall = "cudaGetDeviceCount";  // no kernel ran before it

struct Advice {
  Exit code;
  const char* before;  // the call and CUDA's own message
  const char* after;
};

Advice advice(cudaError_t error, std::string_view call) {
  switch (error) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorInitializationError:
      return {Exit::toolchain, "no CUDA device: ",
              ". The trainer needs an NVIDIA GPU and a driver as new as its CUDA toolkit (nvidia-smi shows both). "
              "Compile for target.kind: cpu to train without one"};
    case cudaErrorDevicesUnavailable:
      return {Exit::toolchain, "the GPU is taken: ",
              ". Another program may have it for itself: nvidia-smi lists programs, nvidia-smi -q -d COMPUTE the mode"};
    case cudaErrorSystemNotReady:
      return {Exit::toolchain, "the GPUs are not ready: ",
              ". On a machine with NVSwitch, start NVIDIA's Fabric Manager: systemctl start nvidia-fabricmanager"};
    case cudaErrorSystemDriverMismatch:
      return {Exit::toolchain, "the driver's parts differ: ",
              ". Its library and its kernel module have different versions, as after an update: reboot the machine"};
    case cudaErrorCompatNotSupportedOnDevice:
      return {Exit::toolchain, "the driver is too old: ",
              ". A cuda-compat library in LD_LIBRARY_PATH does not serve this GPU: update the driver"};
    case cudaErrorMpsConnectionFailed:
      return {Exit::toolchain, "no CUDA device: ",
              ". CUDA_MPS_PIPE_DIRECTORY names a multi-process service that does not answer: start or unset it"};
    case cudaErrorECCUncorrectable:
      return {Exit::toolchain, "the GPU's memory is faulty: ",
              ". Reset the GPU (nvidia-smi -r) or use another one, and start the same command again: it resumes"};
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
      if (call == kFirstCall)
        return {Exit::toolchain, "no CUDA device: ",
                ". Programs find no usable GPU here: nvidia-smi and the kernel's log (dmesg) say more"};
      // Kernel errors surface at a later call, and a graph's without the kernel's name, also with CUDA_LAUNCH_BLOCKING.
      return {Exit::internal, "",
              ". An earlier kernel may have caused it: compute-sanitizer names it if it runs the same command"};
  }
}

}  // namespace

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // clears errors that are not sticky, so that the next call starts clean
  const Advice about = advice(error, call);
  throw Failure(about.code, about.before + std::string(call) + " says \"" + cudaGetErrorString(error) + "\" (" +
                                cudaGetErrorName(error) + ")" + about.after);
}

}  // namespace llmc
