// Matrix products of one fixed shape each, built once at start: oneDNN on cpu, cuBLASLt on cuda.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "program/buffers.h"
#include "program/dtype.h"
#include "program/hidden.h"

namespace llmc {

/// D[m, n] = op(A)[m, k] · op(B)[k, n] (+ bias[n]) (+ C[m, n] | + D[m, n]). All row-major; pitches in elements.
struct GemmShape {
  const char* name = "product";  // what errors and profilers call it; lives on
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;                            // A is stored [k, m]
  bool transpose_b = false;                            // B is stored [n, k], as Hugging Face stores a weight
  std::int64_t pitch_a = 0, pitch_b = 0, pitch_d = 0;  // C has the pitch of D
  DType operand = DType::f32;                          // A and B
  DType result = DType::f32;                           // bias, C and D; sums are kept in fp32 whatever it is
  bool bias = false;
  bool residual = false;     // C is added; C and D are different buffers
  bool accumulates = false;  // a call may ask for D += ...
  bool tiles = false;        // on cpu: in AMX tiles (math/tiles) in place of oneDNN; the plan decides
  // On cuda: bytes of which the address of each operand is a multiple in every call; C is D itself without a residual.
  std::uint32_t align_a = kArenaAlignment, align_b = kArenaAlignment, align_c = kArenaAlignment,
                align_d = kArenaAlignment;

  /// In tiles operands of fp32 are multiplied as three products of bf16 (math/tiles/operands.h).
  constexpr bool bf16x3() const { return tiles && operand == DType::f32; }
};

/// What a term of a bf16x3 product is off by at most, relative to itself; 2^-17.6 in the mean square.
inline constexpr double kBf16x3 = 0x1p-15;

/// Where a product finds its operands. `bias` and `c` are null unless the shape has them.
struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  bool accumulate = false;  // D += product instead of D = product
};

/// On cuda, workspace that a product may use which `trainer tune` has not timed: the same in every trainer, so that its
/// algorithm depends on its shape and the library alone.
inline constexpr std::size_t kUntunedWorkspace = std::size_t{32} << 20;
/// What arenas have where the budget allows, for tuned products. Splitting k of the reference run's qkv weight gradient
/// takes 50 MiB.
inline constexpr std::size_t kTunedWorkspace = std::size_t{64} << 20;

/// Owns what the library needs once for a process: engine, handle, on cuda a workspace taken from the arena.
class MathLibrary {
 public:
  /// `workspace`: device memory of `workspace_bytes`, from the plan; null on cpu. `reserved_sms`: of a GPU, which
  /// products leave free as far as their algorithms can. Throws Failure(usage) where it has no more than these.
  MathLibrary(Device& device, void* workspace, std::size_t workspace_bytes, int reserved_sms = 0);
  ~MathLibrary();
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  Hidden<Impl> impl_;
};

class Gemm {
 public:
  /// Throws Failure(toolchain) naming the shape, the types and the library's version where it has no implementation.
  Gemm(MathLibrary& library, const GemmShape& shape);
  Gemm(Gemm&&) noexcept;
  ~Gemm();

  void operator()(Stream& stream, const GemmOperands& operands) const;

 private:
  struct Impl;
  Hidden<Impl> impl_;
};

}  // namespace llmc
