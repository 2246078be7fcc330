// Lays out a rank's arena: the plan's offsets, then the buffers whose size depends on the number of ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "program/program.h"
#include "program/shards.h"

namespace llmc {

/// Unsharded buffers keep the plan's offsets. The sharded buffers follow one after the other, and with several ranks
/// the gather buffers, in which parts of them are temporarily gathered.
class ArenaOffsets {
 public:
  /// `shares`: the shards of a rank; the full buffers if nothing is sharded over the `world_size` ranks.
  ArenaOffsets(const ProgramInfo& info, const Shares& shares, int world_size);

  /// Offsets in bytes from the arena's start. windows(): of the gather buffers.
  std::size_t of(const Buffer& buffer) const;
  std::size_t windows() const { return shared_.back(); }
  /// Size of the arena in bytes.
  std::size_t bytes() const { return bytes_; }
  /// Offsets of the sharded buffers, in order, and then of the gather buffers, as passed to Program::create.
  std::span<const std::size_t> shared() const { return shared_; }

 private:
  std::span<const Buffer> buffers_;
  std::size_t first_ = 0;  // index of the first sharded buffer
  std::vector<std::size_t> shared_;
  std::size_t bytes_ = 0;
};

}  // namespace llmc
