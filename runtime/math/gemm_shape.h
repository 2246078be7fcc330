// Describes a matrix product as a value: its sizes, and the type and layout of each operand.
#pragma once

#include <cstdint>

#include "program/buffers.h"
#include "program/dtype.h"

namespace llmc {

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
/// pitches in elements. Sums are kept in fp32 for all dtypes.
struct GemmShape {
  const char* name = "product";  // for errors and profilers; must stay valid
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;                            // A is stored [k, m]
  bool transpose_b = false;                            // B is stored [n, k], as Hugging Face stores a weight
  std::int64_t pitch_a = 0, pitch_b = 0, pitch_d = 0;  // C has the pitch of D
  DType operand = DType::f32;                          // A and B
  DType result = DType::f32;                           // bias, C and D
  float alpha = 1, beta = 1;                           // beta: factor of the addend
  bool bias = false;
  bool residual = false;     // C is added; C and D are different buffers
  bool accumulates = false;  // a call may ask for D = ... + beta D
  bool tiles = false;        // on cpu: in AMX tiles (math/tiles) in place of oneDNN; the plan decides
  // On cuda: bytes of which the address of each operand is a multiple in every call; C is D itself without a residual.
  std::uint32_t align_a = kArenaAlignment, align_b = kArenaAlignment, align_c = kArenaAlignment,
                align_d = kArenaAlignment;

  constexpr GemmMatrix a() const { return {transpose_a ? k : m, transpose_a ? m : k, pitch_a, transpose_a, operand}; }
  constexpr GemmMatrix b() const { return {transpose_b ? n : k, transpose_b ? k : n, pitch_b, transpose_b, operand}; }
  /// Addend of the product if `residual`.
  constexpr GemmMatrix c() const { return {m, n, pitch_d, false, result}; }
  constexpr GemmMatrix d() const { return {m, n, pitch_d, false, result}; }

  /// In tiles fp32 operands are multiplied as three bf16 products (math/tiles/operands.h).
  constexpr bool bf16x3() const { return tiles && operand == DType::f32; }

  constexpr double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  /// Bytes that a call without accumulation reads and writes.
  constexpr double bytes() const {
    return static_cast<double>(a().bytes() + b().bytes() + d().bytes() + (residual ? c().bytes() : 0));
  }
};

}  // namespace llmc
