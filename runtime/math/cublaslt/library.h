// State shared by cuBLASLt and cuDNN in a process: handles, the workspace in the arena, names for messages.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <string>

#include "math/cublaslt/tuned_file.h"
#include "math/gemm.h"

namespace llmc {

struct MathLibrary::Impl {
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;  // calls come one at a time, in stream order, so that all may share it
  std::size_t workspace_bytes = 0;
  int capability = 0;  // 90 is 9.0
  int sm_target = 0;   // SMs that GEMMs are planned for; 0: all
  std::string device;  // "NVIDIA H200 with 132 SMs", for what is tuned
  TunedFile tuned;

  Impl(void* memory, std::size_t bytes, int reserved_sms = 0);
  ~Impl() {
    if (handle) cublasLtDestroy(handle);
  }
  /// Key of tuned GEMMs: the device, and sm_target if set.
  std::string device_of_products() const {
    return sm_target ? device + ", of which products use " + std::to_string(sm_target) : device;
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
};

/// "cuBLASLt 13.1.0"
std::string cublaslt_version();

}  // namespace llmc
