// How many lanes share a row on a GPU, and how many blocks a kernel gets.
#pragma once

#include <algorithm>
#include <cstdint>

namespace llmc::plan {

struct LaunchShape {
  std::int64_t lanes, threads, blocks;
};

/// A lane keeps at most four 16-byte vectors of a row in registers where 1,024 lanes allow it; a block has at least 128
/// threads, so narrow rows share one.
inline LaunchShape launch_shape(std::int64_t groups, std::int64_t width, std::int64_t element_bytes) {
  const std::int64_t vectors = (width * element_bytes + 15) / 16;
  std::int64_t lanes = 32;
  while (lanes < 1024 && lanes * 4 < vectors) lanes *= 2;
  const std::int64_t threads = std::max<std::int64_t>(lanes, 128);
  const std::int64_t groups_per_block = threads / lanes;
  return {lanes, threads, std::max<std::int64_t>(1, (groups + groups_per_block - 1) / groups_per_block)};
}

}  // namespace llmc::plan
