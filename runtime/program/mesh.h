// Position of a rank: among all ranks of a launch, and along each axis of their mesh.
#pragma once

namespace llmc {

/// Rank among all ranks of a launch. Decides who writes files, and who waits and exits with whom.
struct WorldRank {
  int index = 0, size = 1;
  bool operator==(const WorldRank&) const = default;
};

/// Rank among the data-parallel ranks. Decides micro-batches and shards.
struct DataRank {
  int index = 0, size = 1;
};

/// Data is the only axis, so both ranks are equal.
struct Mesh {
  WorldRank world;
  DataRank data;
};

constexpr Mesh mesh_of(WorldRank world) { return {world, {world.index, world.size}}; }

}  // namespace llmc
