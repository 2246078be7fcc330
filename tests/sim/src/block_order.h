// Order of the accesses of a block's lanes: vector clocks of its warps, advanced by barriers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "report.h"
#include "stamp.h"

namespace sim {

/// A warp's knowledge of the warps of its cluster: accesses before these clocks happened before its own.
struct Known {
  std::uint32_t clock[kMostBlocks][kWarps] = {};  // of each block

  void join(const Known& other) {
    for (int b = 0; b < kMostBlocks; ++b)
      for (int w = 0; w < kWarps; ++w) clock[b][w] = std::max(clock[b][w], other.clock[b][w]);
  }
};

/// Copies that the hardware makes to a block count as a warp of it, after its own ones.
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
  std::vector<Known> elsewhere;              // what each warp knows of other blocks by barriers of copies, if it does

  /// Returns whether an access of this launch happened before `lane`'s current one. `outside`: the answer for blocks
  /// outside of the cluster, which nothing orders.
  bool ordered(Stamp before, int lane, bool outside) const {
    const std::uint32_t block = block_of(before);
    if (block == (index & (kBlocks - 1))) return lane_of(before) == lane || ordered_within(before, lane);
    const std::uint32_t number = (block - first) & (kBlocks - 1);
    if (number >= blocks) return outside;
    const int other = lane_of(before) / kWarp, mine = lane / kWarp;
    return clock_of(before) < cluster[number]->cluster_floor[other] ||
           (!elsewhere.empty() && clock_of(before) < elsewhere[static_cast<std::size_t>(mine)].clock[number][other]);
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
      for (int v = 0; v < clocks(); ++v) known[v] = std::max(known[v], seen[w][v]);
      known[w] = clock[w];
    }
    for (int w = 0; w < warps; ++w)
      if (mask >> w & 1) std::copy(known, known + clocks(), seen[w]);
    share_elsewhere(mask);
  }

  void meet_all() {
    for (int w = 0; w < warps; ++w) tick(w), floor[w] = clock[w];
    for (int w = 0; w < warps && warps < kWarps; ++w) floor[warps] = std::max(floor[warps], seen[w][warps]);
    share_elsewhere(~0u);
  }

  /// All lanes of the cluster have arrived at its barrier: released accesses happen before all later ones.
  void meet_cluster() {
    for (int w = 0; w < warps; ++w) {
      if (!releases[w]) continue;
      tick(w);
      floor[w] = cluster_floor[w] = clock[w];
      releases[w] = false;
      if (warps < kWarps) floor[warps] = cluster_floor[warps] = std::max(floor[warps], seen[w][warps]);
    }
  }

  /// The warp arrives at a barrier of copies: returns all that it did and knows.
  Known release(int warp) {
    tick(warp);
    Known known = elsewhere.empty() ? Known() : elsewhere[static_cast<std::size_t>(warp)];
    for (std::uint32_t b = 0; b < blocks; ++b)
      for (int v = 0; v < kWarps; ++v) known.clock[b][v] = std::max(known.clock[b][v], cluster[b]->cluster_floor[v]);
    std::uint32_t* const own = known.clock[index - first];
    for (int v = 0; v < clocks(); ++v) own[v] = std::max({own[v], floor[v], seen[warp][v]});
    own[warp] = clock[warp];
    return known;
  }

  /// The warp has waited for a barrier of copies: what is `known` happens before what it does from now on.
  void acquire(int warp, const Known& known) {
    elsewhere.resize(static_cast<std::size_t>(warps));
    elsewhere[static_cast<std::size_t>(warp)].join(known);
    for (int v = 0; v < clocks(); ++v) seen[warp][v] = std::max(seen[warp][v], known.clock[index - first][v]);
  }

  /// Clocks in use: those of the warps and that of copies, if there is one left.
  int clocks() const { return std::min(warps + 1, kWarps); }

  void tick(int warp) {
    if (++clock[warp] == kClocks) report("a block passes more barriers than the simulator can count");
  }

 private:
  void share_elsewhere(std::uint32_t mask) {
    if (elsewhere.empty()) return;
    Known all;
    for (int w = 0; w < warps; ++w)
      if (mask >> w & 1) all.join(elsewhere[static_cast<std::size_t>(w)]);
    for (int w = 0; w < warps; ++w)
      if (mask >> w & 1) elsewhere[static_cast<std::size_t>(w)] = all;
  }
};

}  // namespace sim
