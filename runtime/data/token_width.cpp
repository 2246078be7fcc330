#include "data/token_width.h"

#include <algorithm>

namespace llmc {

bool looks_like_uint32(std::span<const std::uint16_t> numbers) {
  constexpr std::size_t kBlock = 4096, kBlocks = 16, kFewest = 32;
  if (numbers.size() < kFewest || numbers.size() % 2 != 0) return false;
  const std::size_t block = std::min(kBlock, numbers.size());
  const std::size_t blocks = std::min(kBlocks, numbers.size() / block);
  std::size_t pairs = 0, low = 0, high = 0;  // pairs, and how many of their low and high halves are 0 or 1
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t first = (numbers.size() - block) / blocks * b / 2 * 2;
    for (std::size_t i = first; i + 1 < first + block; i += 2, ++pairs) {
      low += numbers[i] <= 1;
      high += numbers[i + 1] <= 1;
    }
  }
  return 10 * high >= 9 * pairs && 2 * low <= pairs;
}

}  // namespace llmc
