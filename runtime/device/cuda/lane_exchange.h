// Reductions within a lane, between the lanes of a warp, and between the warps and blocks of a group, always in the
// same order.
#pragma once

#include "device/cuda/ptx.h"
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

/// Lanes of a row, kLanes in each block of a cluster, and their exchange. Owner: the group; two groups of one kernel
/// have their own turns, and so their own shared memory.
template <class Owner, int kLanes, int kCluster>
class LaneExchange {
 protected:
  static constexpr int kGroups = kLanes < 128 ? 128 / kLanes : 1;  // per block
  static constexpr int kAll = kLanes * kCluster;                   // lanes per row

  __device__ LaneExchange() : lane_(threadIdx.x % kLanes), group_(threadIdx.x / kLanes) {
    if constexpr (kCluster > 1) {
      lane_ += cluster_rank() * kLanes;
      cluster_arrive_relaxed();  // signals that this block has started, for blocks that write to its shared memory
    }
  }

  /// Lanes of this group within the warp. Other groups may have exited, or have more rows.
  __device__ unsigned own_lanes() const {
    if constexpr (kLanes < 32)
      return ((1u << kLanes) - 1u) << threadIdx.x % 32 / kLanes * kLanes;
    else
      return 0xffffffffu;
  }

  /// Reduces over the numbers of a lane, the lanes of a warp, then the warps, always in the same order. Every lane gets
  /// the result.
  template <class T, int kVector, class Operation>
  __device__ T combine(Sums<T, kVector>& partial, Operation operation) const {
    static_assert(kCluster == 1, "blocks of a cluster meet in softmax()");
    T result = fold(partial, operation);
#pragma unroll
    for (int distance = (kLanes < 32 ? kLanes : 32) / 2; distance > 0; distance /= 2)
      result = operation(result, __shfl_xor_sync(own_lanes(), result, distance));
    if constexpr (kLanes > 32) {
      // Two sets alternate: a thread that writes a set has synchronised with all lanes since they read it.
      __shared__ T of_warp[2][32];
      const int warp = group_ * (kLanes / 32);
      if (lane_ % 32 == 0) of_warp[turn_][warp + lane_ % kLanes / 32] = result;
      barrier();
      result = of_warp[turn_][warp + lane_ % (kLanes / 32)];
#pragma unroll
      for (int distance = kLanes / 64; distance > 0; distance /= 2)
        result = operation(result, __shfl_xor_sync(0xffffffffu, result, distance));
      turn_ ^= 1;
    }
    return result;
  }

  /// Combines all lanes of the row: first within a warp, then all warps. Each warp writes to all blocks, so that one
  /// barrier suffices and no block reads the memory of another, which may have exited.
  __device__ __forceinline__ void meet(float& highest, float& sum, float& weighted) const {
    meet_in_warp<32>(highest, sum, weighted);
    if constexpr (kAll > 32) {
      constexpr int kWarps = kAll / 32, kEach = (kWarps + 31) / 32;
      __shared__ float4 of_warp[2][kGroups * kWarps];  // alternating, as above
      float4* const mine = &of_warp[turn_][group_ * kWarps];
      const int lane = lane_ % 32, warp = lane_ / 32;
      if constexpr (kCluster > 1) {
        if (!begun_) cluster_wait();
        begun_ = true;
        if (lane < kCluster) cluster_write(&mine[warp], lane, make_float4(highest, sum, weighted, 0.0f));
        cluster_arrive();
        cluster_wait();
      } else {
        if (lane == 0) mine[warp] = make_float4(highest, sum, weighted, 0.0f);
        barrier();
      }
      highest = mine[lane % kWarps].x, sum = 0.0f, weighted = 0.0f;
#pragma unroll
      for (int i = 1; i < kEach; ++i) highest = max(highest, mine[(lane + 32 * i) % kWarps].x);
      // Reads them from shared memory a second time: a lane has no registers for them.
      __syncwarp();
#pragma unroll 1
      for (int i = 0; i < kEach; ++i) {
        const float4 part = mine[(lane + 32 * i) % kWarps];
        const float below = part.x - highest, factor = exp(below);
        sum = fma(part.y, factor, sum);
        weighted = fma(fma(part.y, below, part.z), factor, weighted);
      }
      meet_in_warp<(kWarps < 32 ? kWarps : 32)>(highest, sum, weighted);
      turn_ ^= 1;
    }
  }

  /// Synchronises only this group's lanes: groups of a block may have different numbers of rows.
  __device__ void barrier() const {
    if constexpr (kGroups == 1) {
      __syncthreads();
    } else {
      named_barrier(group_ + 1, kLanes);
    }
  }

  int lane_, group_;

 private:
  mutable int turn_ = 0;
  mutable bool begun_ = false;  // whether all blocks of the cluster have started
};

}  // namespace llmc
