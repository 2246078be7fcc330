// The widest float vectors of the instruction set a CPU kernel is compiled for, and GEMMs in registers.
#pragma once

#include "device/activation.h"
#include "device/defaults.h"
#include "device/mask.h"
#include "device/types.h"

/// Forces inlining: everything here lives in registers, which a call would spill, and instances of one template would
/// share the callee.
#define LLMC_TILE inline __attribute__((always_inline))

/// Prevents inlining of a block that takes thousands of cycles and that a kernel uses several times. With all copies
/// inline, g++ takes longer (attention's backward pass for narrow heads compiles in 3.5 s instead of 1.0 s), and the
/// code fills the instruction cache. Static: kernels from one template have equally named blocks in one program.
#define LLMC_BLOCK static __attribute__((noinline))

namespace llmc {

// The software model of AMX tiles (tiles.h) uses the vector width of machines that have AMX, on any machine.
#if defined(__AVX512F__) || defined(LLMC_SOFTWARE_TILES)
#define LLMC_SIXTEEN_LANES
#endif

#if defined(LLMC_SIXTEEN_LANES)
constexpr int kVectorLanes = 16;
constexpr int kTileVectors = 4;  // vectors per row of a product in registers: 4 such rows leave room for operands
#elif defined(__AVX__)
constexpr int kVectorLanes = 8;
constexpr int kTileVectors = 2;
#else
constexpr int kVectorLanes = 4;
constexpr int kTileVectors = 2;
#endif
constexpr int kTileRows = 4;

typedef float vector __attribute__((vector_size(4 * kVectorLanes)));
typedef int vector_int __attribute__((vector_size(4 * kVectorLanes)));
typedef unsigned vector_bits __attribute__((vector_size(4 * kVectorLanes)));
typedef unsigned short vector_half __attribute__((vector_size(2 * kVectorLanes)));

constexpr float kLog2e = 1.44269504f, kLn2 = 0.693147181f;

LLMC_TILE vector load(const float* from) {
  vector value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

/// bf16 as fp32.
LLMC_TILE vector widened(vector_half half) { return (vector)(__builtin_convertvector(half, vector_bits) << 16); }

LLMC_TILE vector load(const bf16* from) {
  vector_half half;
  __builtin_memcpy(&half, from, sizeof(half));
  return widened(half);
}

LLMC_TILE void store(float* to, vector value) { __builtin_memcpy(to, &value, sizeof(value)); }

/// Streaming store, so that the old content is not read; `to` must be aligned to the vector.
LLMC_TILE void stream(float* to, vector value) {
#if defined(__AVX512F__) || (defined(__AVX__) && !defined(LLMC_SIXTEEN_LANES))
  asm("vmovntps %1, %0" : "=m"(*reinterpret_cast<vector*>(to)) : "v"(value));
#elif !defined(LLMC_SIXTEEN_LANES)
  asm("movntps %1, %0" : "=m"(*reinterpret_cast<vector*>(to)) : "x"(value));
#else
  store(to, value);
#endif
}

/// Rounds fp32 to bf16, to nearest, ties to even; NaN stays NaN.
LLMC_TILE vector_half round_to_half(vector value) {
#if defined(__AVX512BF16__)
  vector_half half;
  asm("vcvtneps2bf16 %1, %0" : "=v"(half) : "v"(value));
  return half;
#else
  const vector_bits bits = (vector_bits)value;
  const vector_bits rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const vector_bits quiet = (bits >> 16) | 0x40;
  return __builtin_convertvector(value == value ? rounded : quiet, vector_half);
#endif
}

/// Rounds two vectors to bf16 and interleaves them: each 32-bit lane has an element of `low` in its lower 16 bits and
/// one of `high` in its upper 16 bits.
LLMC_TILE vector round_to_pairs(vector low, vector high) {
#if defined(__AVX512BF16__)
  typedef unsigned short halves __attribute__((vector_size(64)));
  halves both;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both) : "v"(high), "v"(low));
  return (vector)__builtin_shufflevector(both, both, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9,
                                         25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#else
  const vector_bits below = __builtin_convertvector(round_to_half(low), vector_bits);
  return (vector)(below | __builtin_convertvector(round_to_half(high), vector_bits) << 16);
#endif
}

LLMC_TILE void store(bf16* to, vector value) {
  const vector_half half = round_to_half(value);
  __builtin_memcpy(to, &half, sizeof(half));
}

/// Copies one 32-bit element to all lanes. Copied as an integer, because it may be a pair of bf16.
LLMC_TILE vector broadcast(const float* from) {
  int bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  return (vector)(bits - vector_int{});
}

#if defined(LLMC_SIXTEEN_LANES)
#define LLMC_SHUFFLE(a, b, lane)                                                                                 \
  __builtin_shufflevector(a, b, lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7), lane(8), \
                          lane(9), lane(10), lane(11), lane(12), lane(13), lane(14), lane(15))
#elif defined(__AVX__)
#define LLMC_SHUFFLE(a, b, lane) \
  __builtin_shufflevector(a, b, lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7))
#else
#define LLMC_SHUFFLE(a, b, lane) __builtin_shufflevector(a, b, lane(0), lane(1), lane(2), lane(3))
#endif

/// Exchanges the off-diagonal kStep x kStep blocks of each 2 kStep x 2 kStep block of rows and lanes.
template <int kStep>
LLMC_TILE void exchange(vector (&rows)[kVectorLanes]) {
#define LLMC_UPPER(lane) ((lane) & kStep ? kVectorLanes + (lane) - kStep : (lane))
#define LLMC_LOWER(lane) ((lane) & kStep ? kVectorLanes + (lane) : (lane) + kStep)
  for (int i = 0; i < kVectorLanes; ++i) {
    if (i & kStep) continue;
    const vector upper = rows[i], lower = rows[i + kStep];
    rows[i] = LLMC_SHUFFLE(upper, lower, LLMC_UPPER);
    rows[i + kStep] = LLMC_SHUFFLE(upper, lower, LLMC_LOWER);
  }
#undef LLMC_UPPER
#undef LLMC_LOWER
}

LLMC_TILE void transpose(vector (&rows)[kVectorLanes]) {
  exchange<1>(rows);
  exchange<2>(rows);
  if constexpr (kVectorLanes >= 8) exchange<(kVectorLanes >= 8 ? 4 : 1)>(rows);
  if constexpr (kVectorLanes >= 16) exchange<(kVectorLanes >= 16 ? 8 : 1)>(rows);
}

/// Loads the first `count` elements, then zeros.
template <class T>
LLMC_TILE vector load_some(const T* from, int count) {
  if (count >= kVectorLanes) return load(from);
  T line[kVectorLanes] = {};
  __builtin_memcpy(line, from, sizeof(T) * (count > 0 ? count : 0));
  return load(line);
}

template <class T>
LLMC_TILE void store_some(T* to, vector value, int count) {
  if (count >= kVectorLanes) return store(to, value);
  T line[kVectorLanes];
  store(line, value);
  __builtin_memcpy(to, line, sizeof(T) * (count > 0 ? count : 0));
}

LLMC_TILE vector larger(vector a, vector b) { return a > b ? a : b; }

/// Replaces the lanes below `lane` by `otherwise`.
LLMC_TILE vector mask_below(int lane, vector value, float otherwise) {
  vector_int lanes;
  for (int i = 0; i < kVectorLanes; ++i) lanes[i] = i;
  return lanes < vector_int{} + lane ? otherwise - vector{} : value;
}

/// Replaces the lanes from `lane` on by `otherwise`.
LLMC_TILE vector mask_from(int lane, vector value, float otherwise) {
  vector_int lanes;
  for (int i = 0; i < kVectorLanes; ++i) lanes[i] = i;
  return lanes < vector_int{} + lane ? value : otherwise - vector{};
}

/// a * b + c, rounded once if the machine has fma. In assembly because -ffp-contract=off splits the expression, g++ and
/// Clang name the instruction differently, and 16 calls of fmaf cost a second of compilation per product.
LLMC_TILE vector multiply_add(vector a, vector b, vector c) {
#if defined(__AVX512F__) || (defined(__FMA__) && !defined(LLMC_SIXTEEN_LANES))
  asm("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
  return c;
#elif defined(LLMC_SIXTEEN_LANES)
  for (int i = 0; i < kVectorLanes; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
}

/// c + a.low * b.low + a.high * b.high for words of two bf16, sums in fp32.
LLMC_TILE vector multiply_add_pairs(vector a, vector b, vector c) {
#if defined(__AVX512BF16__)
  asm("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
  return c;
#else
  const vector_bits x = (vector_bits)a, y = (vector_bits)b, high = vector_bits{} + 0xffff0000u;
  return multiply_add((vector)(x & high), (vector)(y & high), multiply_add((vector)(x << 16), (vector)(y << 16), c));
#endif
}

/// a * b + c into a's register: a polynomial's coefficient c stays in its register, while multiply_add would copy it
/// first.
LLMC_TILE vector horner(vector a, vector b, vector c) {
#if defined(__AVX512F__) || (defined(__FMA__) && !defined(LLMC_SIXTEEN_LANES))
  asm("vfmadd213ps %2, %1, %0" : "+v"(a) : "v"(b), "v"(c));
  return a;
#else
  return multiply_add(a, b, c);
#endif
}

/// 2^v, relative error below 1.6e-7 (2.5e-7 without fma): v = n + r, |r| <= 1/2, a polynomial of degree 5 in r, and n
/// added to the exponent. Saturates at 2^-120; v must be below 127.5. NaN stays NaN. 2^0 is 1.
LLMC_TILE vector exp2(vector v) {
  const vector shift =
      12582912.0f - vector{};         // 1.5 * 2^23: adding it rounds to an integer, which ends up in the low bits
  v = larger(-120.0f - vector{}, v);  // this order of operands keeps NaN
  const vector shifted = v + shift;
  const vector r = v - (shifted - shift);
  vector p = 1.3264727e-3f - vector{};
  p = horner(p, r, 9.671513e-3f - vector{});
  p = horner(p, r, 5.5507336e-2f - vector{});
  p = horner(p, r, 0.24022242f - vector{});
  p = horner(p, r, 0.693147f - vector{});
  p = horner(p, r, 1.0f - vector{});
  return (vector)((vector_bits)p + ((vector_bits)shifted << 23));
}

/// sum[i][v] += sum over k < depth of a[i * row + k * step] * b[k * pitch + v], v in vectors. kPairs: elements of a and
/// b are pairs of bf16 adjacent along k.
template <bool kPairs, int kRows, int kVectors>
LLMC_TILE void multiply(const float* a, int row, int step, const float* b, int pitch, int depth,
                        vector (&sum)[kRows][kVectors]) {
#pragma GCC unroll 1  // the product below fills the registers, so unrolling gains nothing
  for (int k = 0; k < depth; ++k) {
    vector line[kVectors];
    for (int v = 0; v < kVectors; ++v) line[v] = load(b + k * pitch + v * kVectorLanes);
    for (int i = 0; i < kRows; ++i) {
      const vector factor = broadcast(a + i * row + k * step);
      for (int v = 0; v < kVectors; ++v)
        sum[i][v] = kPairs ? multiply_add_pairs(factor, line[v], sum[i][v]) : multiply_add(factor, line[v], sum[i][v]);
    }
  }
}

}  // namespace llmc
