// Simulated counterpart of runtime/device/cuda/ptx.h, found before it: the same functions in plain C++.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <source_location>

#include "device/cuda/tile_map.h"

namespace sim {

/// Waits until `threads` lanes of the block have arrived at barrier `id`.
void synchronize_named(int id, int threads);

int cluster_rank();
int cluster_size();
/// Arrives at the cluster's barrier. release: the lane's earlier accesses happen before the others' later ones.
void arrive_at_cluster(bool release);
/// Waits until all lanes of the cluster have arrived as often as this one.
void wait_for_cluster();
/// Writes `value` to the variable `mine`, in shared memory, of block `rank` of the cluster.
void write_shared_of(float4* mine, int rank, float4 value);

/// Implement llmc::init_barrier, llmc::fence_barrier_init, llmc::arrive_expecting and llmc::arrive_at,
/// llmc::wait_for_phase and llmc::copy_box. where: of the call in the kernel's source.
void init_barrier(void* barrier, int arrivals, const std::source_location& where);
void fence_barrier_init();
void arrive_at_barrier(void* barrier, int rank, int bytes, const std::source_location& where);
void wait_for_phase(void* barrier, int parity, const std::source_location& where);
void copy_box(void* shared, const llmc::TileMap& map, const int (&at)[4], void* barrier, unsigned blocks,
              const std::source_location& where);

/// `exact`, as returned by an instruction within `most` units in the last place: the error depends on the argument's
/// bits. Never rounded to zero or infinity; subnormal results are 0.
float within_ulps(double exact, float argument, int most);

/// Records a copy to this block's shared memory, which completes when the lane waits. Accesses to its destination
/// before that are reported. Null `global`: zeros.
void begin_copy(void* shared, const void* global, int bytes);
/// Completes all copies that this lane has started.
void wait_for_copies();

inline float number_of_bf16(unsigned short bits) { return std::bit_cast<float>(static_cast<unsigned>(bits) << 16); }
/// Implements llmc::mma_bf16_16x8x16 and llmc::mma_f16_16x8x16, of numbers with these bits.
void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                  float (*number)(unsigned short bits) = number_of_bf16);
/// Implement llmc::show_to_warpgroups, llmc::wgmma_commit and llmc::wgmma_wait.
void show_to_warpgroups();
void commit_products();
void wait_for_products(int later);
/// Returns the accumulator for the result `d` of a product that starts. Until the product is waited for, `d` is NaN.
/// Reports unshown copies to shared memory.
float (&begin_product(float (&d)[8][4], bool adds))[8][4];
/// The product of result `d` reads this tile until it is waited for.
void reads_tile(const float (&d)[8][4], const void* tile);
/// Returns the element (row, column) of a product's tile. Reports one that is not aligned to 1,024 bytes.
const unsigned short& element_of_tile(const void* tile, int row, int column);
/// Collects the addresses of the warp's 32 lanes. All of them must call it.
void exchange_addresses(const void* mine, const unsigned short* (&all)[32]);

}  // namespace sim

namespace llmc {

inline void named_barrier(int id, int threads) { sim::synchronize_named(id, threads); }

/// Rounds to nearest, ties to even; NaN is 0x7fff, as with the instruction.
inline unsigned short bf16_bits(float v) {
  const unsigned bits = std::bit_cast<unsigned>(v);
  if (v != v) return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline unsigned bf16_pair(float low, float high) {
  return bf16_bits(low) | static_cast<unsigned>(bf16_bits(high)) << 16;
}

/// By the compiler's own conversion, to nearest, ties to even; NaN is 0x7fff.
inline unsigned short f16_bits(float v) {
  return v != v ? 0x7fff : std::bit_cast<unsigned short>(static_cast<_Float16>(v));
}

inline unsigned f16_pair(float low, float high) { return f16_bits(low) | static_cast<unsigned>(f16_bits(high)) << 16; }

inline float number_of_f16(unsigned short bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }

/// Code with so many bits of mantissa and this least exponent of normal numbers; NaN is 0x7f. Counts steps of the
/// exponent in double precision.
inline unsigned char code_bits(float v, int mantissa_bits, int least_exponent, double largest) {
  if (v != v) return 0x7f;
  const int sign = std::signbit(v) ? 0x80 : 0, one = 1 << mantissa_bits;
  const double magnitude = std::fmin(std::fabs(static_cast<double>(v)), largest);
  int exponent = magnitude < std::ldexp(1.0, least_exponent) ? least_exponent : std::ilogb(magnitude);
  double steps = std::nearbyint(magnitude * std::ldexp(1.0, mantissa_bits - exponent));
  if (steps == 2 * one) steps = one, ++exponent;
  const int normal = (exponent - least_exponent + 1) << mantissa_bits | (static_cast<int>(steps) - one);
  return static_cast<unsigned char>(sign | (steps < one ? static_cast<int>(steps) : normal));
}

inline unsigned short e4m3_pair(float low, float high) {
  const auto bits = [](float v) { return code_bits(v, 3, -6, 448); };
  return static_cast<unsigned short>(bits(low) | bits(high) << 8);
}

inline unsigned short e5m2_pair(float low, float high) {
  const auto bits = [](float v) { return code_bits(v, 2, -14, 57344); };
  return static_cast<unsigned short>(bits(low) | bits(high) << 8);
}

/// Number of a code of e4m3.
inline float number_of_e4m3(unsigned code) {
  const int magnitude = static_cast<int>(code & 0x7fu), exponent = magnitude >> 3, mantissa = magnitude & 7;
  if (magnitude == 0x7f) return __builtin_nanf("");
  const double number = std::ldexp(exponent ? 8 + mantissa : mantissa, (exponent ? exponent : 1) - 10);
  return static_cast<float>(code & 0x80u ? -number : number);
}

inline unsigned scaled_e4m3(unsigned codes, float factor) {
  unsigned scaled = 0;
  for (int i = 0; i < 4; ++i)
    scaled |= static_cast<unsigned>(code_bits(number_of_e4m3(codes >> 8 * i & 0xffu) * factor, 3, -6, 448)) << 8 * i;
  return scaled;
}

template <int kBytes>
inline void copy_async(void* shared, const void* global, bool real) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  sim::begin_copy(shared, real ? global : nullptr, kBytes);
}
inline void wait_for_copies() { sim::wait_for_copies(); }

inline int cluster_rank() { return sim::cluster_rank(); }
inline int cluster_size() { return sim::cluster_size(); }
inline void cluster_arrive() { sim::arrive_at_cluster(true); }
inline void cluster_arrive_relaxed() { sim::arrive_at_cluster(false); }
inline void cluster_wait() { sim::wait_for_cluster(); }
inline void cluster_write(float4* shared, int rank, float4 v) { sim::write_shared_of(shared, rank, v); }

struct CopyBarrier {
  unsigned long long state;
};
using SourceLocation = std::source_location;

inline void init_barrier(CopyBarrier* barrier, int arrivals, SourceLocation where = SourceLocation::current()) {
  sim::init_barrier(barrier, arrivals, where);
}
inline void fence_barrier_init() { sim::fence_barrier_init(); }
inline void arrive_expecting(CopyBarrier* barrier, int bytes, SourceLocation where = SourceLocation::current()) {
  sim::arrive_at_barrier(barrier, sim::cluster_rank(), bytes, where);
}
inline void arrive_at(CopyBarrier* barrier, int rank, SourceLocation where = SourceLocation::current()) {
  sim::arrive_at_barrier(barrier, rank, 0, where);
}
inline void wait_for_phase(CopyBarrier* barrier, int parity, SourceLocation where = SourceLocation::current()) {
  sim::wait_for_phase(barrier, parity, where);
}
inline void copy_box(void* shared, const TileMap& map, int column, int head, int token, int sequence,
                     CopyBarrier* barrier, unsigned short blocks, SourceLocation where = SourceLocation::current()) {
  sim::copy_box(shared, map, {column, head, token, sequence}, barrier, blocks, where);
}

inline void keep_branch() {}
inline int opaque(int v) { return v; }

// Only what the PTX ISA guarantees: the nearest result, or up to 2 (1) ulp off, a different number for each argument.
inline float exp2_approx(float v) {
  if (v == 0.0f || __builtin_fabsf(v) < 0x1p-126f) return 1.0f;
  return sim::within_ulps(__builtin_exp2(static_cast<double>(v)), v, 2);
}
inline float reciprocal_approx(float v) {
  if (__builtin_fabsf(v) < 0x1p-126f) v = __builtin_copysignf(0.0f, v);
  return sim::within_ulps(1.0 / static_cast<double>(v), v, 1);
}

inline void mma_bf16_16x8x16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  sim::multiply_add(d, a, b);
}
inline void mma_f16_16x8x16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  sim::multiply_add(d, a, b, number_of_f16);
}

// The lane itself loads its results, so that its loads are checked.
inline void load_matrix_x4(unsigned (&r)[4], const void* shared) {
  const unsigned short* rows[32];
  sim::exchange_addresses(shared, rows);
  const int lane = sim::lane_of_warp();
  for (int m = 0; m < 4; ++m) {
    const unsigned short* pair = rows[8 * m + lane / 4] + lane % 4 * 2;
    r[m] = pair[0] | static_cast<unsigned>(pair[1]) << 16;
  }
}

inline void load_matrix_x4_transposed(unsigned (&r)[4], const void* shared) {
  const unsigned short* rows[32];
  sim::exchange_addresses(shared, rows);
  const int lane = sim::lane_of_warp();
  for (int m = 0; m < 4; ++m) {
    const unsigned short *upper = rows[8 * m + lane % 4 * 2], *lower = rows[8 * m + lane % 4 * 2 + 1];
    r[m] = upper[lane / 4] | static_cast<unsigned>(lower[lane / 4]) << 16;
  }
}

inline void show_to_warpgroups() { sim::show_to_warpgroups(); }
inline void wgmma_fence() {}
inline void wgmma_commit() { sim::commit_products(); }
template <int kLater>
inline void wgmma_wait() {
  sim::wait_for_products(kLater);
}
template <int kLater>
inline void wgmma_wait(float (&)[8][4]) {
  sim::wait_for_products(kLater);
}

// Each warp multiplies its rows. The lane itself loads its part of the operands, so that its loads are checked.
template <bool kDown>
inline void wgmma_64x64x16(float (&d)[8][4], const unsigned (&a)[4], const void* tile, int step, bool adds) {
  const auto element = [&](int k, int n) -> unsigned {
    const int row = kDown ? 16 * step + k : n, column = kDown ? n : 16 * step + k;
    return sim::element_of_tile(tile, row, column);
  };
  float(&result)[8][4] = sim::begin_product(d, adds);
  sim::reads_tile(d, tile);
  const int lane = sim::lane_of_warp(), k = lane % 4 * 2;
  for (int n = 0; n < 8; ++n) {
    const int column = 8 * n + lane / 4;
    const unsigned b[2] = {element(k, column) | element(k + 1, column) << 16,
                           element(k + 8, column) | element(k + 9, column) << 16};
    sim::multiply_add(result[n], a, b);
  }
}

inline void wgmma_64x64x16(float (&d)[8][4], const void* a, const void* b, int step, bool adds) {
  const int lane = sim::lane_of_warp(), warp = static_cast<int>(threadIdx.x) / 32 % 4;
  unsigned left[4];
  for (int i = 0; i < 4; ++i) {
    const int row = 16 * warp + lane / 4 + i % 2 * 8, column = 16 * step + lane % 4 * 2 + i / 2 * 8;
    left[i] = sim::element_of_tile(a, row, column) | static_cast<unsigned>(sim::element_of_tile(a, row, column + 1))
                                                         << 16;
  }
  wgmma_64x64x16<false>(d, left, b, step, adds);
  sim::reads_tile(d, a);
}

}  // namespace llmc
