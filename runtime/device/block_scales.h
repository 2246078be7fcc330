// Scales of blocks of 32 elements along a product's sum (OCP MX 1.0): UE8M0, a power of two in 8 bits, and the layout
// in which cuBLASLt reads them.
#pragma once

#include "device/math.h"
#include "device/types.h"

namespace llmc {

/// Elements that share a scale.
constexpr int kBlockElements = 32;

/// Columns of which a group of lanes quantises blocks of rows together.
constexpr int kBlockColumns = 256;

/// Rows of an operand, and scales of each, whose scales lie together in a tile.
constexpr int kScaleTileRows = 128, kScaleTileCols = 4;

/// 2^(bits - 127); 0xff is NaN.
LLMC_HD inline float to_float(e8m0 v) {
  const unsigned power = v.bits == 0 ? 1u << 22 : static_cast<unsigned>(v.bits) << 23;
  return __builtin_bit_cast(float, v.bits == 0xff ? 0x7fc00000u : power);
}

/// Exact, of the powers of two from 2^-127 to 2^127 and of NaN.
template <>
LLMC_HD inline e8m0 from_float<e8m0>(float v) {
  return e8m0{static_cast<unsigned char>(__builtin_bit_cast(unsigned, v) >> 23 & 0xffu)};
}

/// Bytes of the scales of an operand with `rows` rows, each of `scales` blocks: whole tiles, row-major.
LLMC_HD constexpr long long block_scale_bytes(long long rows, long long scales) {
  return (rows + kScaleTileRows - 1) / kScaleTileRows * kScaleTileRows *
         ((scales + kScaleTileCols - 1) / kScaleTileCols * kScaleTileCols);
}

/// Returns where the scale of block `scale` of row `row` lies among these. Rows 0, 32, 64 and 96 of a tile are
/// neighbours (cuBLAS manual, "1D Block Scaling Factors Layout").
LLMC_HD constexpr long long block_scale_offset(long long row, long long scale, long long scales) {
  const long long tile =
      row / kScaleTileRows * ((scales + kScaleTileCols - 1) / kScaleTileCols) + scale / kScaleTileCols;
  return tile * (kScaleTileRows * kScaleTileCols) + row % 32 * 16 + row % kScaleTileRows / 32 * 4 +
         scale % kScaleTileCols;
}

}  // namespace llmc
