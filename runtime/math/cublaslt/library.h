// What cuBLASLt and cuDNN share in a process: handles, the workspace from the arena, names for messages.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <string>

#include "math/gemm.h"

namespace llmc {

struct MathLibrary::Impl {
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;  // calls come one at a time, in the stream's order, so that all may use it
  std::size_t workspace_bytes = 0;
  int capability = 0;  // 90 is 9.0

  ~Impl() {
    if (handle) cublasLtDestroy(handle);
  }
};

/// "cuBLASLt 13.1.0"
std::string cublaslt_version();

}  // namespace llmc
