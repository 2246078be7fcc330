// Reductions within a lane and between the lanes of a warp, always in the same order.
#pragma once

#include "device/cuda/vectors.h"

namespace llmc {

/// Reduces the numbers of one lane, which it overwrites.
template <class T, int kVector, class Operation>
__device__ T fold(Sums<T, kVector>& partial, Operation operation) {
#pragma unroll
  for (int half = kVector / 2; half > 0; half /= 2)
#pragma unroll
    for (int e = 0; e < half; ++e) partial.value[e] = operation(partial.value[e], partial.value[e + half]);
  return partial.value[0];
}

/// Combines lanes up to `kCount` apart: the highest value, and each lane's sums relative to its own highest,
/// rescaled. Sums are of powers, and of powers times their exponent.
template <int kCount>
__device__ void meet_in_warp(float& highest, float& sum, float& weighted) {
  const float own = highest;
#pragma unroll
  for (int distance = kCount / 2; distance > 0; distance /= 2)
    highest = max(highest, __shfl_xor_sync(0xffffffffu, highest, distance));
  const float below = own - highest, factor = exp(below);
  weighted = fma(sum, below, weighted) * factor;
  sum *= factor;
#pragma unroll
  for (int distance = kCount / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    weighted += __shfl_xor_sync(0xffffffffu, weighted, distance);
  }
}

}  // namespace llmc
