#include "step/arena_offsets.h"

#include <algorithm>

namespace llmc {

ArenaOffsets::ArenaOffsets(const ProgramInfo& info, const Shares& shares, int world_size) : buffers_(info.buffers) {
  const auto first = std::ranges::find_if(buffers_, [&](const Buffer& b) { return is_sharded(b.use, info.shard); });
  first_ = static_cast<std::size_t>(first - buffers_.begin());
  std::size_t at = first == buffers_.end() ? info.arena_bytes : first->offset;
  for (auto buffer = first; buffer != buffers_.end(); ++buffer) {
    shared_.push_back(at);
    const std::int64_t elements = shares.state_elements(buckets_of(info.buckets, info.parameters, buffer->groups));
    at += buffer_space(buffer->dtype, in_blocks(elements, buffer->block));
  }
  shared_.push_back(at);
  bytes_ = at + (world_size > 1 ? info.window_bytes : 0);
}

std::size_t ArenaOffsets::of(const Buffer& buffer) const {
  const auto index = static_cast<std::size_t>(&buffer - buffers_.data());
  return index < first_ ? buffer.offset : shared_[index - first_];
}

}  // namespace llmc
