// Lanes of one block, and their synchronisation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "block_order.h"
#include "shared_layout.h"
#include "stamp.h"

namespace sim {

struct Block;
struct Lane;

/// An asynchronous copy to shared memory in flight.
struct Copy {
  void* shared;
  const void* global;  // null: zeros
  std::size_t bytes;
};

/// A warpgroup product that a lane has started.
struct Results {
  float numbers[8][4];
};
struct Product {
  float (*result)[8][4];
  std::unique_ptr<Results> values;
  int group;                       // last one to add to it
  std::vector<const void*> tiles;  // that it reads until then
};

/// A box on its way to a block's shared memory.
struct BoxCopy {
  std::size_t offset;
  std::vector<std::byte> bytes;
};

/// A barrier of copies in a block's shared memory (mbarrier).
struct PhaseBarrier {
  std::size_t offset;
  int lane;                          // that has initialised it
  int arrivals;                      // of each phase
  int missing;                       // arrivals that the phase still waits for
  long long bytes = 0;               // that it still waits for; negative if they came before they were expected
  int ended = 0;                     // phases
  bool shown = false;                // fenced by that lane
  Known known = {}, released = {};   // by those that have arrived in this phase, and in all phases that have ended
  std::vector<BoxCopy> copies = {};  // of this phase
  std::vector<Lane*> waiting = {};
};

struct Lane {
  Block* block = nullptr;
  int index = 0;  // in the block
  bool finished = false;
  int arrivals = 0, waits = 0;      // at the cluster's barrier
  std::vector<Copy> copies;         // not waited for yet
  bool shown_to_warpgroups = true;  // its copies
  std::vector<Product> products;    // not waited for yet
  int groups = 0;                   // of products, committed
  std::vector<std::pair<std::size_t, int>>
      phases;  // how many of a barrier of copies, by its offset, have been waited for
};

/// The running lane.
Lane& this_lane();

/// Lanes waiting for others to arrive.
struct Barrier {
  int expected = 0;
  std::vector<Lane*> waiting;
};

/// Barrier of a cluster; lanes arrive and wait in separate steps.
struct ClusterBarrier {
  int arrived = 0;    // lanes that have arrived since it was last completed
  int completed = 0;  // how often all have arrived
  std::vector<Lane*> waiting;
};

/// A joint operation of lanes of one warp: a shuffle, a vote, __syncwarp.
struct Meeting {
  enum class Kind { none, exchange, vote, synchronize };
  unsigned mask = 0, arrived = 0;
  Kind kind = Kind::none;
  unsigned long long word[kWarp] = {}, result[kWarp] = {};
  int source[kWarp] = {};
};

constexpr int kNamedBarriers = 16;

struct Block {
  BlockOrder order;
  std::vector<Lane> lanes;
  std::deque<Lane*> ready;
  int live = 0;  // lanes that have not exited
  Barrier whole, named[kNamedBarriers];
  std::vector<Meeting> meetings[kWarps];  // one for each mask in use
  std::vector<std::byte> shared;          // copy of the shared memory while another block of the cluster runs
  std::vector<Cell> shared_cells;
  std::vector<Granule> granules;      // of shared memory
  std::deque<PhaseBarrier> barriers;  // of copies
};

/// Describes where lanes of stuck blocks wait, for a report.
std::string describe_waiting(const Block& block, std::size_t at_cluster_barrier);

}  // namespace sim
