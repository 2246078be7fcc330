// Packs buffers with known lifetimes into one block of memory.
#pragma once

#include <cstddef>
#include <vector>

namespace llmc::plan {

/// A buffer that is live from position `first` to position `last`, both included.
struct PackedBuffer {
  std::size_t bytes = 0;
  int first = 0, last = 0;
  std::size_t offset = 0;  // the result
};

struct Packing {
  std::size_t bytes = 0;  // size of the block
  std::size_t bound = 0;  // most live bytes at one position: no packing can be smaller
};

/// Packs greedily by size (Pisarchyk and Lee 2020): the largest first, each at the lowest offset that no buffer live at
/// the same time covers. While the result is above the bound, moves the topmost buffer to the front and retries, a
/// limited number of times. Repeats this from the order by bytes times lifetime. Tries every order of few buffers, so
/// that their packing is optimal among all orders. Offsets are multiples of `alignment`.
Packing pack(std::vector<PackedBuffer>& items, std::size_t alignment);

}  // namespace llmc::plan
