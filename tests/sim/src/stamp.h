// Identifies an accessor in 64 bits: the operation, and within a kernel the block, the lane and the number of barriers
// that its warp had passed.
#pragma once

#include <cstdint>

namespace sim {

using Stamp = std::uint64_t;  // operation 21 bits, block 16, lane 10, clock 13, bytes 4; 0: none

constexpr std::uint32_t kOperations = 1u << 21, kBlocks = 1u << 16, kClocks = 1u << 13;
constexpr int kLanes = 1024, kWarp = 32, kWarps = kLanes / kWarp;
constexpr int kMostBlocks = 16;  // of a cluster
/// A granule: the bytes that share a Cell.
constexpr int kGranule = 4;
constexpr Stamp kBytes = 15;

constexpr Stamp make_stamp(std::uint32_t operation, std::uint32_t block, int lane, std::uint32_t clock) {
  return static_cast<Stamp>(operation) << 43 | static_cast<Stamp>(block) << 27 | static_cast<Stamp>(lane) << 17 |
         static_cast<Stamp>(clock) << 4;
}
constexpr std::uint32_t operation_of(Stamp stamp) { return static_cast<std::uint32_t>(stamp >> 43); }
constexpr std::uint32_t block_of(Stamp stamp) { return static_cast<std::uint32_t>(stamp >> 27) & (kBlocks - 1); }
constexpr int lane_of(Stamp stamp) { return static_cast<int>(stamp >> 17) & (kLanes - 1); }
constexpr std::uint32_t clock_of(Stamp stamp) { return static_cast<std::uint32_t>(stamp >> 4) & (kClocks - 1); }

/// Of two stamps' bits that differ: whether one operation, one block and one lane of it made both, or one block.
constexpr bool is_of_lane(Stamp difference) { return difference >> 17 == 0; }
constexpr bool is_of_block(Stamp difference) { return difference >> 27 == 0; }

/// Per granule: the last write, and two reads by different lanes or operations that nothing orders, the first and the
/// newest. With barriers of whole blocks that suffices to find every conflict; with others some may be missed, but none
/// is false.
struct Cell {
  Stamp write = 0, read = 0, other_read = 0;
};

}  // namespace sim
