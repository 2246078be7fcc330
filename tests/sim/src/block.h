// The lanes of one block and where they wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "block_order.h"
#include "stamp.h"

namespace sim {

struct Block;

/// An asynchronous copy on its way to shared memory.
struct Copy {
  void* shared;
  const void* global;  // null: zeros
  std::size_t bytes;
};

/// What a lane has begun of a warpgroup's products.
struct Results {
  float numbers[8][4];
};
struct Product {
  float (*result)[8][4];
  std::unique_ptr<Results> values;
  int group;  // the last one to add to it
};

struct Lane {
  Block* block = nullptr;
  int index = 0;  // in the block
  bool finished = false;
  int arrivals = 0, waits = 0;      // at the barrier of the cluster
  std::vector<Copy> copies;         // that it has not waited for
  bool shown_to_warpgroups = true;  // what it has copied
  std::vector<Product> products;    // that it has not waited for
  int groups = 0;                   // of products, committed
};

/// The one that runs.
Lane& this_lane();

/// Lanes that wait for more to come.
struct Barrier {
  int expected = 0;
  std::vector<Lane*> waiting;
};

/// The barrier of a cluster, to which lanes come and at which they wait as two steps.
struct ClusterBarrier {
  int arrived = 0;    // lanes that have come since it was completed
  int completed = 0;  // how often all have
  std::vector<Lane*> waiting;
};

/// What lanes of one warp do together: a shuffle, a vote, __syncwarp.
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
  int live = 0;  // lanes that have not ended
  Barrier whole, named[kNamedBarriers];
  std::vector<Meeting> meetings[kWarps];  // one for each mask in use
  std::vector<std::byte> shared;          // the shared memory while another block of the cluster runs
  std::vector<Cell> shared_cells;
  std::vector<std::uint8_t> arriving;  // of each granule of shared memory: copies on their way there
};

/// Where the lanes of blocks that cannot go on wait, for a report.
std::string describe_waiting(const Block& block, std::size_t at_cluster_barrier);

}  // namespace sim
