// Every instruction that CUDA C++ has no name for: one function each, and no inline PTX anywhere else. Simulated
// devices have their own file of this name, in plain C++ (tests/sim).
#pragma once

namespace llmc {

/// Waits for `threads` threads of the block, whole warps, at barrier `id`, 1 to 15: 0 is __syncthreads().
__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// The bits of `v` as bf16, rounded to the nearest, ties to even. For sm_80 and later, as below.
__device__ __forceinline__ unsigned short bf16_bits(float v) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

/// Two bf16 in a word, `low` in the lower half.
__device__ __forceinline__ unsigned bf16_pair(float low, float high) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

}  // namespace llmc
