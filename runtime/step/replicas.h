// Compares state that is equal on all ranks between steps. Checksums find a rank with faulty memory or arithmetic
// before it spoils a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/program.h"

namespace llmc {

class Rendezvous;  // comm/rendezvous.h
class Session;     // step/session.h

/// Ranges of a buffer whose bytes are equal on all ranks.
struct Replica {
  struct Interval {
    std::size_t offset, bytes;  // in the arena
  };
  const char* name;  // of the buffer
  std::vector<Interval> intervals;
};

/// Returns the ranges of weights and optimizer state. If the optimizer state is sharded, returns only the ranges of the
/// weights that ranks gather. Returns nothing if the weights are sharded.
std::vector<Replica> replicas(const ProgramInfo& info);

/// Compares the checksums of the replicas. Collective; the device must be idle after `step`. Throws
/// SharedFailure(numerics) on every rank, naming those that differ.
void compare_replicas(Session& session, Rendezvous& ranks, std::int64_t step);

}  // namespace llmc
