// Raw tokens of one width that are read as those of another.
#pragma once

#include <cstdint>
#include <span>

namespace llmc {

/// Whether uint16 numbers are more likely the halves of uint32 tokens, low half first: of blocks spread over all of
/// them, every second number is 0 or 1 nearly always, and the others are mostly not.
bool looks_like_uint32(std::span<const std::uint16_t> numbers);

}  // namespace llmc
