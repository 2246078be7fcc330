// Declares the attributes of quantise_blocks.
#pragma once

#include <cstdint>
#include <string>

namespace llmc::ops {

struct BlockAttributes {
  bool down = false;  // blocks run down the columns: sums are over rows
  std::string text() const;
};

/// Bytes of the scales of a matrix of codes.
std::int64_t block_scale_bytes(std::int64_t rows, std::int64_t cols, bool down);

}  // namespace llmc::ops
