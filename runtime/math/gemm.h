// GEMMs of one fixed shape each, built once at start: oneDNN on cpu, cuBLASLt on cuda.
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
  const char* name = "product";  // for errors and profilers; must stay valid
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;                            // A is stored [k, m]
  bool transpose_b = false;                            // B is stored [n, k], as Hugging Face stores a weight
  std::int64_t pitch_a = 0, pitch_b = 0, pitch_d = 0;  // C has the pitch of D
  DType operand = DType::f32;                          // A and B
  DType result = DType::f32;                           // bias, C and D; sums are always in fp32
  bool bias = false;
  bool residual = false;     // C is added; C and D are different buffers
  bool accumulates = false;  // a call may ask for D += ...
  bool tiles = false;        // on cpu: in AMX tiles (math/tiles) in place of oneDNN; the plan decides
  // On cuda: bytes of which the address of each operand is a multiple in every call; C is D itself without a residual.
  std::uint32_t align_a = kArenaAlignment, align_b = kArenaAlignment, align_c = kArenaAlignment,
                align_d = kArenaAlignment;

  /// In tiles fp32 operands are multiplied as three bf16 products (math/tiles/operands.h).
  constexpr bool bf16x3() const { return tiles && operand == DType::f32; }
};

/// Largest relative error of a term of a bf16x3 product; 2^-17.6 in the mean square.
inline constexpr double kBf16x3 = 0x1p-15;

/// Addresses of a GEMM's operands. `bias` and `c` are null unless the shape has them.
struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  bool accumulate = false;  // D += product instead of D = product
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
