// Keys and values for the blocks of a cluster, which all read the same tiles: each block copies its part of the rows to
// all of them, so that the L2 cache is read once for the cluster. For sm_90a.
//
// Turns alternate between two buffers in each block. Copies of a turn, from all blocks, complete on the block's own
// barrier `full`. Each warp that is done with a turn arrives at the barriers `empty` of all blocks. Copies of a turn
// start when `empty` of the turn before the last is complete.
#pragma once

#include "device/cuda/warpgroup.h"

namespace llmc {

/// Follows the tiles in shared memory.
struct MulticastBarriers {
  CopyBarrier full[2], empty[2];  // of each buffer
};

/// kBlocks: of the cluster, 2 or 4, of one warpgroup each. kWidth: of a head.
template <int kBlocks, int kWidth>
struct Multicast {
  static constexpr int kSlices = kSlicesOf<kWidth>, kRows = kTile / kBlocks, kWarps = 4;
  static_assert(2 * kSlices <= kWarps && kRows % 8 == 0, "a box for a warp; whole periods of the swizzle");
  using Tiles = bf16[2][2][kSlices * kTileElements];  // double buffer: keys, values

  Tiles& tiles;
  int key_head, value_head, sequence;  // in the map

  /// Initialises the barriers and starts the copies of turn 0. All threads of the cluster call this first.
  __device__ __forceinline__ void begin(const TileMap& map, int token) const {
    if (threadIdx.x == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        init_barrier(&barriers().full[i], 1), init_barrier(&barriers().empty[i], kBlocks * kWarps);
      fence_barrier_init();
    }
    cluster_arrive();
    cluster_wait();
    copy_turn(map, 0, token);
  }

  /// Starts this block's copies of a turn, once all blocks are done with turn - 2: of keys and values from `token` on.
  /// It may wait for them, so it comes after products that have been started. Each warp has a box, so that none issues
  /// much more than the others. map: of boxes of kRows rows.
  __device__ __forceinline__ void copy_turn(const TileMap& map, int turn, int token) const {
    const int warp = threadIdx.x / 32, buffer = turn % 2, slice = warp / 2, of_values = warp % 2;
    if (threadIdx.x % 32 != 0 || slice >= kSlices) return;
    const int first = cluster_rank() * kRows;
    CopyBarrier* const full = &barriers().full[buffer];
    if (turn >= 2) wait_for_phase(&barriers().empty[buffer], (turn / 2 - 1) % 2);
    if (warp == 0) arrive_expecting(full, sizeof(tiles[buffer]));
    copy_box(tiles[buffer][of_values] + slice * kTileElements + first * kTile, map, slice * kTile,
             of_values ? value_head : key_head, token + first, sequence, full, (1 << kBlocks) - 1);
  }

  /// Waits for all copies of a turn.
  __device__ __forceinline__ void wait(int turn) const { wait_for_phase(&barriers().full[turn % 2], turn / 2 % 2); }

  /// This warp is done with a turn's tiles.
  __device__ __forceinline__ void release(int turn) const {
    __syncwarp();
    const int lane = threadIdx.x % 32;
    if (lane < kBlocks) arrive_at(&barriers().empty[turn % 2], lane);
  }

  /// No block may exit while others copy to it or arrive at its barriers: all threads of the cluster call the first of
  /// these after their last turn, and the second one last.
  __device__ __forceinline__ void arrive_at_end() const { cluster_arrive(); }
  __device__ __forceinline__ void wait_at_end() const { cluster_wait(); }

 private:
  __device__ __forceinline__ MulticastBarriers& barriers() const {
    return *reinterpret_cast<MulticastBarriers*>(block_memory + sizeof(Tiles));
  }
};

}  // namespace llmc

// Default of an instance whose blocks copy for themselves, as in device/defaults.h.
constexpr llmc::TileMap key_map = {};
