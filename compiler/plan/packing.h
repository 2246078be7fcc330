// Packs buffers with known lifetimes into one block of memory.
#pragma once

#include <cstddef>
#include <vector>

namespace llmc::plan {

/// A buffer that is alive from position `first` to position `last`, both included.
struct Item {
  std::size_t bytes = 0;
  int first = 0, last = 0;
  std::size_t offset = 0;  // the result
};

struct Packing {
  std::size_t bytes = 0;  // size of the block
  std::size_t bound = 0;  // the most bytes alive at one position: no packing can be smaller
};

/// Greedy by size (Pisarchyk and Lee 2020): the largest first, each at the lowest offset that no buffer alive at the
/// same time covers. Where that is above the bound, again with the buffer first that lies highest, for a while, then
/// the same from the order by bytes times lifetime; of few buffers every order is tried, so that theirs is the least
/// that any order gives. Offsets are multiples of `alignment`.
Packing pack(std::vector<Item>& items, std::size_t alignment);

}  // namespace llmc::plan
