// Detects raw tokens whose width differs from the stated one.
#pragma once

#include <cstdint>
#include <span>

namespace llmc {

/// Returns whether uint16 numbers are more likely halves of uint32 tokens, low half first. In blocks sampled from the
/// file, nearly every second number is 0 or 1, and most others are not.
bool looks_like_uint32(std::span<const std::uint16_t> numbers);

}  // namespace llmc
