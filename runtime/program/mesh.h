// Where a rank stands: among all ranks of a launch, and along each axis of their mesh.
#pragma once

namespace llmc {

/// Among all ranks of a launch: who writes files, meets the others, and ends with them.
struct WorldRank {
  int index = 0, size = 1;
  bool operator==(const WorldRank&) const = default;
};

/// Among the ranks that train on samples of their own: who has which micro-batches and which shards.
struct DataRank {
  int index = 0, size = 1;
};

/// Data is the only axis, so that both numbers are equal.
struct Mesh {
  WorldRank world;
  DataRank data;
};

constexpr Mesh mesh_of(WorldRank world) { return {world, {world.index, world.size}}; }

}  // namespace llmc
