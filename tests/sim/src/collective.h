// The collectives themselves: what they read and write, and how their bytes travel over the board.
#pragma once

#include <nccl.h>

#include <cstddef>

#include "board.h"

namespace sim {

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast };

/// As NCCL's call has it: `count` is of what the call's argument counts, elements of the whole or of one rank's share.
struct Collective {
  Kind kind;
  ncclDataType_t type;
  std::size_t count;
  int root;
  ncclRedOp_t operation;  // of a reduction
  const void* send;
  void* receive;

  std::size_t sent_bytes(int ranks) const;
  std::size_t received_bytes(int ranks) const;
  Call call() const;
  const char* name() const;  // "all-reduce"
};

/// Whether send and receive lie apart, or where NCCL works in place.
bool placed_well(const Collective& collective, int rank, int ranks);

/// Runs as the operation that the order has begun and as collective `number` of the board: notes its accesses, and ends
/// the process by a report where another rank calls something else. Sums and maxima are made in the order of ranks,
/// rounded to the type after each addition. Returns with nothing more written once the board is aborted.
void run_collective(const Collective& collective, std::uint64_t number, Board& board);

}  // namespace sim
