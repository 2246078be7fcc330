// A tensor's values in blocks of bounded size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/safetensors.h"

namespace llmc::checkpoints {

inline constexpr std::uint64_t kBlockElements = 4u << 20;  // 16 MiB of fp32: enough for full disk speed

/// Calls block(values) over all of an F32 tensor, in its order. Throws Failure(checkpoint) as Reader::read.
template <class Block>
void for_each_block(const safetensors::Reader& reader, const safetensors::Entry& entry, Block block) {
  std::vector<float> values;
  const std::uint64_t elements = entry.bytes() / sizeof(float);
  for (std::uint64_t at = 0; at < elements; at += kBlockElements) {
    values.resize(std::min(kBlockElements, elements - at));
    reader.read(entry, at * sizeof(float), values.data(), values.size() * sizeof(float));
    block(std::span<const float>(values));
  }
}

}  // namespace llmc::checkpoints
