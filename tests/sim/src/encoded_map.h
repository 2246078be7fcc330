// A map of a tensor, as cuTensorMapEncodeTiled() of the simulated driver encodes it.
#pragma once

#include <cstdint>

namespace sim {

constexpr int kMapRank = 4;

struct EncodedMap {
  std::uint64_t mark;  // kMapMark
  std::uint64_t address;
  std::uint64_t extents[kMapRank];      // elements; the fastest dimension first
  std::uint64_t strides[kMapRank - 1];  // bytes, of the other dimensions
  std::uint32_t box[kMapRank];
  std::uint64_t unused[5];
};
static_assert(sizeof(EncodedMap) == 128);

constexpr std::uint64_t kMapMark = 0x70616d2d656c6974;

}  // namespace sim
