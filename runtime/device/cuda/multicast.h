// Keys and values for the blocks of a cluster, which all read the same tiles: each block copies its part of the rows to
// all of them, so that the L2 cache is read once for the cluster. For sm_90a.
//
// Turns alternate between two buffers in each block. A turn's copies begin when all blocks have finished with the turn
// before the last one. Its bytes come at the block's own barrier `arrived`, from all blocks; its end is announced to
// the barriers `left` of all blocks, which are about to overwrite it.
#pragma once

#include "device/cuda/warpgroup.h"

namespace llmc {

/// Follows the tiles in shared memory.
struct MulticastBarriers {
  CopyBarrier arrived[2], left[2];  // of each buffer
};

/// kBlocks: of the cluster, 2, 4 or 8, of one warpgroup each. kWidth: of a head.
template <int kBlocks, int kWidth>
struct Multicast {
  static constexpr int kSlices = kSlicesOf<kWidth>, kRows = kTile / kBlocks, kWarps = 4;
  using Tiles = bf16[2][2][kSlices * kTileElements];  // double buffer: keys, values

  Tiles& tiles;
  int key_head, value_head, sequence;  // in the map

  /// Sets up the barriers and starts the copies of turn 0. All threads of the cluster call this first.
  __device__ __forceinline__ void begin(const TileMap& map, int token) const {
    if (threadIdx.x == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) set_up(&barriers().arrived[i], 1), set_up(&barriers().left[i], kBlocks * kWarps);
      show_barriers();
    }
    cluster_arrive();
    cluster_wait();
    copy_turn(map, 0, token);
  }

  /// Starts this block's copies of a turn, once all blocks have left turn - 2: of keys and values from `token` on. Each
  /// warp has a box, so that none issues much more than the others. map: of boxes of kRows rows.
  __device__ __forceinline__ void copy_turn(const TileMap& map, int turn, int token) const {
    const int warp = threadIdx.x / 32, buffer = turn % 2, slice = warp / 2, of_values = warp % 2;
    if (threadIdx.x % 32 != 0 || slice >= kSlices) return;
    const int first = cluster_rank() * kRows;
    CopyBarrier* const arrived = &barriers().arrived[buffer];
    if (turn >= 2) wait_for_phase(&barriers().left[buffer], (turn / 2 - 1) % 2);
    if (warp == 0) arrive_expecting(arrived, sizeof(tiles[buffer]));
    copy_box(tiles[buffer][of_values] + slice * kTileElements + first * kTile, map, slice * kTile,
             of_values ? value_head : key_head, token + first, sequence, arrived, (1 << kBlocks) - 1);
  }

  /// Waits for all copies of a turn.
  __device__ __forceinline__ void wait(int turn) const { wait_for_phase(&barriers().arrived[turn % 2], turn / 2 % 2); }

  /// This warp is done with a turn's tiles.
  __device__ __forceinline__ void leave(int turn) const {
    __syncwarp();
    const int lane = threadIdx.x % 32;
    if (lane < kBlocks) arrive_at(&barriers().left[turn % 2], lane);
  }

  /// No block may end while others copy to it or arrive at its barriers. All threads of the cluster call this last.
  __device__ __forceinline__ void end() const {
    cluster_arrive();
    cluster_wait();
  }

 private:
  __device__ __forceinline__ MulticastBarriers& barriers() const {
    return *reinterpret_cast<MulticastBarriers*>(block_memory + sizeof(Tiles));
  }
};

}  // namespace llmc

// Of an instance whose blocks copy for themselves, as in device/defaults.h.
constexpr llmc::TileMap key_map = {};
