// Reads a tensor's values in blocks of bounded size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/stored_numbers.h"

namespace llmc::checkpoints {

inline constexpr std::uint64_t kBlockElements = 4u << 20;  // 16 MiB of fp32: enough for full disk speed

/// Calls block(values, bytes) over all of a tensor, in its order: its elements as numbers, and as they are stored.
/// Throws Failure(checkpoint) as Reader::read.
template <class Block>
void for_each_block(const safetensors::Reader& reader, const safetensors::Entry& entry, Block block) {
  std::vector<float> values;
  std::vector<std::byte> bytes;
  const auto size = static_cast<std::uint64_t>(safetensors::dtype_bytes(entry.dtype));
  const std::uint64_t elements = entry.bytes() / size;
  for (std::uint64_t at = 0; at < elements; at += kBlockElements) {
    values.resize(std::min(kBlockElements, elements - at));
    bytes.resize(values.size() * size);
    reader.read(entry, at * size, bytes.data(), bytes.size());
    widen(entry.dtype, bytes, values);
    block(std::span<const float>(values), std::span<const std::byte>(bytes));
  }
}

}  // namespace llmc::checkpoints
