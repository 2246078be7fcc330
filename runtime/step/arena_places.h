// Where the buffers of a rank's arena lie: at the plan's places, and behind these what depends on the number of ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "program/program.h"
#include "program/shards.h"

namespace llmc {

/// What every rank has whole lies where the plan says. Behind it come the buffers that are shared out, one after the
/// other, and where there are several ranks the windows: memory in which parts of those are whole for a while.
class ArenaPlaces {
 public:
  /// `shares` are those of a rank, and whole where `world_size` ranks share out nothing.
  ArenaPlaces(const ProgramInfo& info, const Shares& shares, int world_size);

  /// Bytes from the arena's start.
  std::size_t of(const Buffer& buffer) const;
  std::size_t windows() const { return shared_.back(); }
  /// Of the arena.
  std::size_t bytes() const { return bytes_; }
  /// The places of the buffers that are shared out, in their order, and that of the windows: what a Step is told.
  std::span<const std::size_t> shared() const { return shared_; }

 private:
  std::span<const Buffer> buffers_;
  std::size_t first_ = 0;  // index of the first buffer that is shared out
  std::vector<std::size_t> shared_;
  std::size_t bytes_ = 0;
};

}  // namespace llmc
