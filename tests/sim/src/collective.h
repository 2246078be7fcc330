// Implements the collectives: the bytes they read and write, and their transfer over the board.
#pragma once

#include <nccl.h>

#include <cstddef>

#include "board.h"

namespace sim {

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast };

/// Arguments of NCCL's call: `count` counts elements of the whole or of one rank's shard, as the call does.
struct Collective {
  Kind kind;
  ncclDataType_t type;
  std::size_t count;
  int root;
  ncclRedOp_t operation;  // of a reduction
  const void* send;
  void* receive;
  int captured;  // number among the communicator's captured calls; 0: not captured

  std::size_t sent_bytes(int ranks) const;
  std::size_t received_bytes(int ranks) const;
  Call call() const;
  const char* name() const;  // "all-reduce"
};

/// Returns whether send and receive are disjoint, or in place as NCCL requires.
bool placed_well(const Collective& collective, int rank, int ranks);

/// Runs as the operation that Order has started and as collective `number` of the board. Records its accesses, and
/// reports if another rank calls something else. Sums and maxima are computed in rank order, rounded to the type after
/// each addition. Once the board is aborted, returns without further writes.
void run_collective(const Collective& collective, std::uint64_t number, Board& board);

}  // namespace sim
