// How the ranks of a run find each other: rank 0 listens, the others come and say who they are.
#pragma once

#include <string>
#include <vector>

#include "comm/connection.h"
#include "comm/launch.h"

namespace llmc {

/// The ranks that one rank has a connection to: rank 0 to all others, the others to rank 0.
struct Assembly {
  std::vector<std::string> hosts;       // of all ranks
  std::vector<Connection> connections;  // rank 0: of rank i + 1; another: one, to rank 0
};

/// Rank 0: takes the connections of all other ranks of the run `id`, refuses everybody else, and says welcome when all
/// are there. Throws Failure(peer_lost) with the ranks that did not come until `until`, or that went again, after
/// telling those that came.
Assembly receive_ranks(const Launch& launch, const std::string& id, const Socket& listener, MonotonicTime until);

/// Another rank: connects to rank 0 at one of the addresses, again and again. Throws Failure(peer_lost) where rank 0
/// does not come, and Failure with rank 0's words where it refuses this rank or gives up.
Assembly join_ranks(const Launch& launch, const std::string& id, const std::vector<Address>& addresses,
                    MonotonicTime until);

/// "rank 3", "ranks 0-2, 7" for sorted numbers.
std::string rank_list(const std::vector<int>& ranks);

}  // namespace llmc
