// Describes a matrix product as a value: its sizes, and the type and layout of each operand.
#pragma once

#include <cstdint>

#include "device/block_scales.h"
#include "program/buffers.h"
#include "program/dtype.h"

namespace llmc {

/// Numbers by which the sums of a product are multiplied, for operands whose codes stand for code times scale.
enum class Scaling : std::uint8_t {
  none,
  rows,     // an fp32 for each row of A [m], and for each column of op(B) [n]
  tensors,  // an fp32 for A, and one for B
  blocks,   // a UE8M0 for each 32 elements of A and of B along the sum (device/block_scales.h)
};

/// Operand of a product: a row-major matrix as it is stored.
struct GemmMatrix {
  std::int64_t rows = 0, cols = 0, pitch = 0;  // in elements
  bool transposed = false;                     // the product multiplies by its transpose
  DType dtype = DType::f32;

  /// Bytes of the elements, without padding.
  constexpr std::int64_t bytes() const { return bytes_of(dtype, rows * cols); }
  /// Bytes from the first element to the end of the last row's padding.
  constexpr std::int64_t extent() const { return bytes_of(dtype, rows * pitch); }
};

/// D[m, n] = alpha · op(A)[m, k] · op(B)[k, n] (+ bias[n]) (+ beta · C[m, n] | + beta · D[m, n]). All row-major;
/// pitches in elements. Sums are fp32; of codes on cuda some 14 bits, with `fast_accumulation` all along the sum,
/// else of 128 terms at a time. Scaled by rows, the product's element i, j is also multiplied by scale_a[i] ·
/// scale_b[j], before anything is added; scaled by tensors, by scale_a[0] · scale_b[0]; by blocks, each term of its sum
/// by those of its elements' blocks.
struct GemmShape {
  const char* name = "product";  // for errors and profilers; must stay valid
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;                            // A is stored [k, m]
  bool transpose_b = false;                            // B is stored [n, k], as Hugging Face stores a weight
  std::int64_t pitch_a = 0, pitch_b = 0, pitch_d = 0;  // C has the pitch of D
  DType operand = DType::f32;                          // of B, and of A unless e5m2_a
  bool e5m2_a = false;                                 // A has codes of e5m2, B of e4m3: a gradient by an operand
  DType result = DType::f32;                           // C and D; bias, see bias_dtype()
  Scaling scaling = Scaling::none;                     // other than none: on cuda
  float alpha = 1, beta = 1;                           // beta: factor of the addend
  bool bias = false;
  bool residual = false;           // C is added; C and D are different buffers
  bool accumulates = false;        // a call may ask for D = ... + beta D
  bool tiles = false;              // on cpu: in AMX tiles (math/tiles) in place of oneDNN; the plan decides
  bool tf32 = false;               // on cuda, of fp32: tensor cores read 10 bits of the operands' mantissas
  bool fast_accumulation = false;  // on cuda, of e4m3: sums in the tensor core's own width, narrower than fp32
  // On cuda: bytes of which the address of each operand is a multiple in every call; C is D itself without a residual.
  std::uint32_t align_a = kArenaAlignment, align_b = kArenaAlignment, align_c = kArenaAlignment,
                align_d = kArenaAlignment;

  constexpr DType operand_a() const { return e5m2_a ? DType::e5m2 : operand; }
  constexpr GemmMatrix a() const {
    return {transpose_a ? k : m, transpose_a ? m : k, pitch_a, transpose_a, operand_a()};
  }
  constexpr GemmMatrix b() const { return {transpose_b ? n : k, transpose_b ? k : n, pitch_b, transpose_b, operand}; }
  /// Addend of the product if `residual`.
  constexpr GemmMatrix c() const { return {m, n, pitch_d, false, result}; }
  constexpr GemmMatrix d() const { return {m, n, pitch_d, false, result}; }

  /// cuBLASLt adds a bias of 16 bits to products of 8 bits, whatever D is.
  constexpr DType bias_dtype() const { return operand == DType::e4m3 ? DType::bf16 : result; }
  /// Scales of A and of B.
  constexpr std::int64_t scales_a() const { return scales(m); }
  constexpr std::int64_t scales_b() const { return scales(n); }
  constexpr std::int64_t scale_bytes() const {
    return bytes_of(scaling == Scaling::blocks ? DType::byte : DType::f32, scales_a() + scales_b());
  }

  /// In tiles fp32 operands are multiplied as three bf16 products (math/tiles/operands.h).
  constexpr bool bf16x3() const { return tiles && operand == DType::f32; }

  constexpr double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  /// Bytes that a call without accumulation reads and writes.
  constexpr double bytes() const {
    return static_cast<double>(a().bytes() + b().bytes() + d().bytes() + (residual ? c().bytes() : 0) + scale_bytes());
  }

 private:
  constexpr std::int64_t scales(std::int64_t rows) const {
    if (scaling == Scaling::blocks) return block_scale_bytes(rows, k / kBlockElements);
    return scaling == Scaling::rows ? rows : scaling == Scaling::tensors ? 1 : 0;
  }
};

}  // namespace llmc
