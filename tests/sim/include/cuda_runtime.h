// Stand-in for the header that nvcc includes before every .cu file: the language of kernels, with lanes as fibers.
//
// __shared__ is thread-local storage: the simulator runs a block on one thread, finds the shared variables of all
// kernels in that thread's segment, poisons them when a block starts and swaps them between the blocks of a cluster.
// Functions with unspecified rounding (__expf, rsqrtf, ...) are missing on purpose: device/cuda/ptx.h has the two such
// instructions that kernels use, with their specified error.
#pragma once

#include <math.h>

#include <bit>
#include <type_traits>

#include "cuda_runtime_api.h"

#define __CUDACC__ 1
#define __CUDA_ARCH__ 900
#define __host__
#define __device__
#define __global__
#define __constant__
#define __grid_constant__
#define __shared__ thread_local
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))

namespace sim {

// Constant within a kernel, so that the compiler may call them once.
uint3 thread_index() __attribute__((const));
uint3 block_index() __attribute__((const));
dim3 block_size() __attribute__((const));
dim3 grid_size() __attribute__((const));

void synchronize_block();
void synchronize_warp(unsigned mask);
/// Word of lane `source` of the warp. All lanes of `mask` must call it.
unsigned long long exchange(unsigned mask, unsigned long long word, int source);
/// One bit for each lane of `mask`, set if its `mine` is true.
unsigned vote(unsigned mask, bool mine);

template <class T>
T exchange_value(unsigned mask, T value, int source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 32 or 64 bits");
  using Word = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
  return std::bit_cast<T>(static_cast<Word>(exchange(mask, std::bit_cast<Word>(value), source)));
}

inline int lane_of_warp() { return static_cast<int>(thread_index().x % 32); }

}  // namespace sim

#define threadIdx (::sim::thread_index())
#define blockIdx (::sim::block_index())
#define blockDim (::sim::block_size())
#define gridDim (::sim::grid_size())

inline void __syncthreads() { sim::synchronize_block(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { sim::synchronize_warp(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}

// A source outside the lane's segment of `width` lanes returns the lane's own value, as on a GPU.
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  const int mine = sim::lane_of_warp();
  return sim::exchange_value(mask, value, (mine & ~(width - 1)) + (lane & (width - 1)));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int mine = sim::lane_of_warp(), source = mine - static_cast<int>(delta);
  return sim::exchange_value(mask, value, source < (mine & ~(width - 1)) ? mine : source);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int mine = sim::lane_of_warp(), source = mine + static_cast<int>(delta);
  return sim::exchange_value(mask, value, source >= (mine & ~(width - 1)) + width ? mine : source);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  const int mine = sim::lane_of_warp(), source = mine ^ lanes;
  return sim::exchange_value(mask, value, source >= (mine & ~(width - 1)) + width ? mine : source);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) { return sim::vote(mask, predicate != 0); }
inline int __any_sync(unsigned mask, int predicate) { return sim::vote(mask, predicate != 0) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return sim::vote(mask, predicate != 0) == mask; }

template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, T value) {
  *address = value;
}

inline float __uint_as_float(unsigned v) { return std::bit_cast<float>(v); }
inline unsigned __float_as_uint(float v) { return std::bit_cast<unsigned>(v); }
inline float __int_as_float(int v) { return std::bit_cast<float>(v); }
inline int __float_as_int(float v) { return std::bit_cast<int>(v); }
inline double __longlong_as_double(long long v) { return std::bit_cast<double>(v); }
inline long long __double_as_longlong(double v) { return std::bit_cast<long long>(v); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return ::fmaf(a, b, c); }
inline float __fsqrt_rn(float v) { return ::sqrtf(v); }
inline float __frcp_rn(float v) { return 1.0f / v; }
inline float __int2float_rn(int v) { return static_cast<float>(v); }
inline int __float2int_rn(float v) { return static_cast<int>(::rintf(v)); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selected) {
  const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
  unsigned word = 0;
  for (int i = 0; i < 4; ++i) word |= static_cast<unsigned>(bytes >> 8 * (selected >> 4 * i & 7u) & 0xffu) << 8 * i;
  return word;
}
inline int __clz(int v) { return std::countl_zero(static_cast<unsigned>(v)); }
inline int __popc(unsigned v) { return std::popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline long long min(long long a, long long b) { return a < b ? a : b; }
inline long long max(long long a, long long b) { return a > b ? a : b; }
inline float min(float a, float b) { return ::fminf(a, b); }
inline float max(float a, float b) { return ::fmaxf(a, b); }
