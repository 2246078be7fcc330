// Cuts parameters into chunks for the optimizer's kernels. The plan and the trainer build the same table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "device/types.h"
#include "program/parameters.h"
#include "program/shards.h"

namespace llmc {

/// Number of chunks for `elements` elements of one parameter.
inline std::int64_t chunks_of(std::int64_t elements, std::int64_t chunk_elements) {
  return (elements + chunk_elements - 1) / chunk_elements;
}

struct ChunkTable {
  std::vector<Chunk> chunks;
  std::vector<std::int32_t> first_chunk;  // [parameters + 1]
};

/// Builds the chunk table. A chunk is a contiguous run of at most `chunk_elements` elements of one parameter, padding
/// included, so that per-parameter sums add whole chunks in a fixed order. The table contains this rank's part of each
/// chunk. Chunk numbers are equal on all ranks, so that sums over chunks can be reduced element by element.
inline ChunkTable make_chunks(std::span<const ParameterInfo> parameters, std::int64_t chunk_elements,
                              const Shares& shares) {
  ChunkTable table;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const ParameterInfo& info = parameters[p];
    table.first_chunk.push_back(static_cast<std::int32_t>(table.chunks.size()));
    const std::int64_t end = info.rows * info.pitch;
    for (std::int64_t i = 0; i < chunks_of(end, chunk_elements); ++i) {
      const std::int64_t begin = i * chunk_elements;
      Chunk chunk{info.offset + begin, 0, 0, static_cast<int>(p), info.group};
      shares.own(chunk.offset, std::min(chunk_elements, end - begin),
                 [&](std::int64_t flat, std::int64_t state, std::int64_t count) {
                   chunk.offset = flat, chunk.state = state, chunk.length = static_cast<int>(count);
                 });
      table.chunks.push_back(chunk);
    }
  }
  table.first_chunk.push_back(static_cast<std::int32_t>(table.chunks.size()));
  return table;
}

}  // namespace llmc
