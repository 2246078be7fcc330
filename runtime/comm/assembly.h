// Connects the ranks of a run: rank 0 listens, the others connect and identify themselves.
#pragma once

#include <string>
#include <vector>

#include "comm/connection.h"
#include "comm/launcher.h"

namespace llmc {

/// Connections of one rank: rank 0 to all others, the others to rank 0.
struct Assembly {
  std::vector<std::string> hosts;       // of all ranks
  std::vector<Connection> connections;  // rank 0: to rank i + 1; others: one, to rank 0
};

/// Rank 0: accepts the connections of all other ranks of the run `id`, refuses all others, and sends a welcome when all
/// are connected. If a rank has not connected by `until`, or has disconnected, informs the other ranks and throws
/// Failure(peer_lost) with the missing ranks.
Assembly receive_ranks(const LauncherInfo& launch, const std::string& id, const Socket& listener, MonotonicTime until);

/// Other ranks: connects to rank 0 at one of the addresses, with retries. Throws Failure(peer_lost) if rank 0 does not
/// answer, and Failure with rank 0's message if it refuses this rank or gives up.
Assembly join_ranks(const LauncherInfo& launch, const std::string& id, const std::vector<Address>& addresses,
                    MonotonicTime until);

/// Formats sorted ranks: "rank 3", "ranks 0-2, 7".
std::string rank_list(const std::vector<int>& ranks);

}  // namespace llmc
