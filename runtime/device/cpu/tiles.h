// AMX tile registers: products of 32 x 32 blocks, bf16 operands and sums in fp32. Only this file uses these
// instructions. With LLMC_SOFTWARE_TILES it emulates their arithmetic on any machine, bit for bit.
//
// A tile has 16 rows of 16 words. In an operand a word holds two bf16 adjacent along the sum (pack.h). So a tile of A
// is [16 rows, 32 deep], one of B [32 deep, 16 columns], and one of C [16, 16] fp32.
#pragma once

#include "device/cpu/vector.h"

namespace llmc {

static_assert(kVectorLanes == 16, "a machine with tiles has vectors of 16 lanes");

constexpr int kTileSide = 16;  // rows of a tile, and words per row

/// Owns this thread's tile registers within a scope. The process must have called require_tiles().
class Tiles {
 public:
  LLMC_TILE Tiles();
  LLMC_TILE ~Tiles();
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  /// Loads tile kTile: 16 rows from `from` on, `pitch` words apart.
  template <int kTile>
  LLMC_TILE void load(const float* from, int pitch);
  template <int kTile>
  LLMC_TILE void store(float* to, int pitch);
  template <int kTile>
  LLMC_TILE void zero();
  /// Tile kC += tile kA times tile kB.
  template <int kC, int kA, int kB>
  LLMC_TILE void multiply();

 private:
#if defined(LLMC_SOFTWARE_TILES)
  using Tile = float[kTileSide][kTileSide];
  static void multiply(Tile& sums, const Tile& a, const Tile& b);
  Tile tiles_[8];
#endif
};

#if defined(LLMC_SOFTWARE_TILES)

/// Tile operations a thread has requested from the software model; tests compare them with the minimum a product needs.
struct TileCounts {
  long long loads = 0, stores = 0, products = 0;
};
inline thread_local TileCounts tile_counts;

/// Flushes denormals to zero on input and output, whatever the thread's own setting.
inline float flushed(float value) {
  const unsigned bits = __builtin_bit_cast(unsigned, value);
  return bits & 0x7f800000u ? value : __builtin_bit_cast(float, bits & 0x80000000u);
}

LLMC_TILE Tiles::Tiles() {}
LLMC_TILE Tiles::~Tiles() {}

template <int kTile>
LLMC_TILE void Tiles::load(const float* from, int pitch) {
  ++tile_counts.loads;
  for (int r = 0; r < kTileSide; ++r)
    __builtin_memcpy(tiles_[kTile][r], from + static_cast<long long>(r) * pitch, sizeof(tiles_[kTile][r]));
}

template <int kTile>
LLMC_TILE void Tiles::store(float* to, int pitch) {
  ++tile_counts.stores;
  for (int r = 0; r < kTileSide; ++r)
    __builtin_memcpy(to + static_cast<long long>(r) * pitch, tiles_[kTile][r], sizeof(tiles_[kTile][r]));
}

template <int kTile>
LLMC_TILE void Tiles::zero() {
  for (auto& row : tiles_[kTile])
    for (float& v : row) v = 0.0f;
}

/// TDPBF16PS: elements at even and at odd positions along the sum are summed separately from zero, each product added
/// by an fma. Their total is added to C. All sums round to nearest, ties to even.
inline void Tiles::multiply(Tile& sums, const Tile& a, const Tile& b) {
  const auto half = [](float word, int odd) {
    const unsigned bits = __builtin_bit_cast(unsigned, word);
    return flushed(__builtin_bit_cast(float, odd ? bits & 0xffff0000u : bits << 16));
  };
  for (int r = 0; r < kTileSide; ++r) {
    for (int c = 0; c < kTileSide; ++c) {
      float total[2] = {};
      for (int k = 0; k < kTileSide; ++k)
        for (int odd = 0; odd < 2; ++odd)
          total[odd] = flushed(__builtin_fmaf(half(a[r][k], odd), half(b[k][c], odd), total[odd]));
      sums[r][c] = flushed(flushed(sums[r][c]) + flushed(total[0] + total[1]));
    }
  }
}

template <int kC, int kA, int kB>
LLMC_TILE void Tiles::multiply() {
  ++tile_counts.products;
  multiply(tiles_[kC], tiles_[kA], tiles_[kB]);
}

#else

/// Operand of LDTILECFG: palette 1, eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileShapes {
  unsigned char palette = 1, reserved[15] = {};
  unsigned short row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  unsigned char rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

LLMC_TILE Tiles::Tiles() {
  const TileShapes shapes;
  asm volatile("ldtilecfg %0" : : "m"(shapes));
}

LLMC_TILE Tiles::~Tiles() { asm volatile("tilerelease"); }

template <int kTile>
LLMC_TILE void Tiles::load(const float* from, int pitch) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(4ll * pitch), "i"(kTile) : "memory");
}

template <int kTile>
LLMC_TILE void Tiles::store(float* to, int pitch) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(4ll * pitch), "i"(kTile) : "memory");
}

template <int kTile>
LLMC_TILE void Tiles::zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

template <int kC, int kA, int kB>
LLMC_TILE void Tiles::multiply() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
}

#endif

/// Location of an operand: the first word, and the strides in words between rows and between steps of 32 along the sum.
struct TileOperand {
  const float* data;
  int pitch, step;
};

/// C [32, 32] = A B, or C += A B, summed over `steps` times 32. `pitch` is C's.
///
/// Computes half of C at a time, in four tile registers. If another thread of the same core uses tiles too, few
/// physical ones remain for renaming: using eight registers took twice as long as four (docs/explanation/amx.md).
template <bool kAdd>
LLMC_TILE void multiply_block(Tiles& tiles, TileOperand a, TileOperand b, int steps, float* c, int pitch) {
  for (int half = 0; half < 2; ++half) {
    float* upper = c + half * kTileSide;
    float* lower = upper + kTileSide * pitch;
    if constexpr (kAdd) {
      tiles.load<0>(upper, pitch);
      tiles.load<1>(lower, pitch);
    } else {
      tiles.zero<0>();
      tiles.zero<1>();
    }
    const float* columns = b.data + half * kTileSide;
    for (int s = 0; s < steps; ++s) {
      tiles.load<3>(columns + s * b.step, b.pitch);
      tiles.load<2>(a.data + s * a.step, a.pitch);
      tiles.multiply<0, 2, 3>();
      tiles.load<2>(a.data + s * a.step + kTileSide * a.pitch, a.pitch);
      tiles.multiply<1, 2, 3>();
    }
    tiles.store<0>(upper, pitch);
    tiles.store<1>(lower, pitch);
  }
}

}  // namespace llmc
