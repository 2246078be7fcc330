// What several ranks have alike between two steps, and whether they do: a rank whose memory or arithmetic went wrong is
// found by its checksums before it spoils a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/program.h"

namespace llmc {

class Rendezvous;  // comm/rendezvous.h
class Session;     // step/session.h

/// Stretches of a buffer whose bytes are equal on all ranks.
struct Replica {
  struct Stretch {
    std::size_t offset, bytes;  // in the arena
  };
  const char* name;  // of the buffer
  std::vector<Stretch> stretches;
};

/// Weights and the optimizer's state, or where the ranks share that out, what they gather of the weights: the rest of
/// them each rank brings up to date in its own part alone. Nothing where they share out the weights.
std::vector<Replica> replicas(const ProgramInfo& info);

/// Compares the checksums of the replicas. Collective, with the device at rest after `step`. Throws
/// SharedFailure(numerics) on every rank with those that differ.
void compare_replicas(Session& session, Rendezvous& ranks, std::int64_t step);

}  // namespace llmc
