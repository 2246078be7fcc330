// GEMMs of one fixed shape each, built once at start: oneDNN on cpu, cuBLASLt on cuda.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "math/gemm_shape.h"
#include "program/hidden.h"

namespace llmc {

/// Largest relative error of a term of a bf16x3 product; 2^-17.6 in the mean square.
inline constexpr double kBf16x3 = 0x1p-15;

/// Largest relative error of a term of a product in tf32, whose operands lose less than 2^-10 of themselves each.
/// NVIDIA documents that 10 bits of a mantissa are read, and not how: rounding to nearest loses half of that, cutting
/// off all of it.
inline constexpr double kTf32 = 0x1p-9;

/// Largest error of a term of an fp8 product, relative to the sum of the terms' magnitudes: sums of sm_90's fp8 tensor
/// cores keep some 14 bits (DeepSeek-V3, 2024). Without fast accumulation that holds for partial sums of 128 terms.
inline constexpr double kFp8Accumulation = 0x1p-12;

/// Addresses of a GEMM's operands. `bias`, `c` and the scales are null unless the shape has them.
struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  bool accumulate = false;         // D = ... + beta D instead of D = ...
  const float* scale_a = nullptr;  // [scales_a() of the shape]
  const float* scale_b = nullptr;  // [scales_b()]
};

/// On cuda, workspace for GEMMs not timed by `trainer tune`: equal in every trainer, so that the algorithm depends only
/// on the shape and the library.
inline constexpr std::size_t kUntunedWorkspace = std::size_t{32} << 20;
/// Workspace for tuned GEMMs, if the budget allows. Splitting k of the reference run's qkv weight gradient takes 50
/// MiB.
inline constexpr std::size_t kTunedWorkspace = std::size_t{64} << 20;

/// Per-process state of the library: engine, handle, and on cuda a workspace in the arena.
class MathLibrary {
 public:
  /// `workspace`: device memory of `workspace_bytes`, from the plan; null on cpu. `reserved_sms`: SMs of a GPU that
  /// GEMMs leave free as far as their algorithms can. Throws Failure(usage) if the GPU has no more than these.
  MathLibrary(Device& device, void* workspace, std::size_t workspace_bytes, int reserved_sms = 0);
  ~MathLibrary();
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  Hidden<Impl> impl_;
};

class Gemm {
 public:
  /// Throws Failure(toolchain) naming the shape, the types and the library's version if it has no implementation.
  Gemm(MathLibrary& library, const GemmShape& shape);
  Gemm(Gemm&&) noexcept;
  ~Gemm();

  void operator()(Stream& stream, const GemmOperands& operands) const;

 private:
  struct Impl;
  Hidden<Impl> impl_;
};

}  // namespace llmc
