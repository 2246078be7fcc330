// Order of the accesses of a block's lanes: vector clocks of its warps, advanced by barriers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "report.h"
#include "stamp.h"

namespace sim {

struct BlockOrder {
  std::uint32_t index = 0;               // of the block
  std::uint32_t first = 0, blocks = 1;   // of its cluster
  BlockOrder* const* cluster = nullptr;  // those blocks
  int warps = 0;
  std::uint32_t clock[kWarps] = {};          // barriers that a warp has passed
  std::uint32_t floor[kWarps] = {};          // its clock at the last barrier of the whole block
  std::uint32_t cluster_floor[kWarps] = {};  // its clock at the last barrier of the cluster
  bool releases[kWarps] = {};                // it has arrived at the cluster's next barrier, with release
  std::uint32_t seen[kWarps][kWarps] = {};   // [w][v]: warp v's clock at the last named barrier that w knows of

  /// Returns whether an access of this launch happened before `lane`'s current one. `elsewhere`: the answer for blocks
  /// outside of the cluster, which nothing orders.
  bool ordered(Stamp before, int lane, bool elsewhere) const {
    const std::uint32_t block = block_of(before);
    if (block == (index & (kBlocks - 1))) return lane_of(before) == lane || ordered_within(before, lane);
    const std::uint32_t number = (block - first) & (kBlocks - 1);
    return number < blocks ? clock_of(before) < cluster[number]->cluster_floor[lane_of(before) / kWarp] : elsewhere;
  }

  /// Same, for an access of another lane of this block.
  bool ordered_within(Stamp before, int lane) const {
    const int other = lane_of(before) / kWarp, mine = lane / kWarp;
    const std::uint32_t when = clock_of(before);
    if (other == mine) return when < clock[mine];
    return when < floor[other] || when < seen[mine][other];
  }

  /// A barrier of the warps in `mask`: everything they did or knew before it happens before everything they do after
  /// it.
  void meet(std::uint32_t mask) {
    std::uint32_t known[kWarps] = {};
    for (int w = 0; w < warps; ++w) {
      if (!(mask >> w & 1)) continue;
      tick(w);
      for (int v = 0; v < warps; ++v) known[v] = std::max(known[v], seen[w][v]);
      known[w] = clock[w];
    }
    for (int w = 0; w < warps; ++w)
      if (mask >> w & 1) std::copy(known, known + warps, seen[w]);
  }

  void meet_all() {
    for (int w = 0; w < warps; ++w) tick(w), floor[w] = clock[w];
  }

  /// All lanes of the cluster have arrived at its barrier: released accesses happen before all later ones.
  void meet_cluster() {
    for (int w = 0; w < warps; ++w) {
      if (!releases[w]) continue;
      tick(w);
      floor[w] = cluster_floor[w] = clock[w];
      releases[w] = false;
    }
  }

  void tick(int warp) {
    if (++clock[warp] == kClocks) report("a block passes more barriers than the simulator can count");
  }
};

}  // namespace sim
