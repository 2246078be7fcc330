#include "compiler/plan/packing.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace llmc::plan {

Packing pack(std::vector<Item>& items, std::size_t alignment) {
  const auto aligned = [alignment](std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return items[a].bytes > items[b].bytes; });

  Packing result;
  std::vector<std::size_t> placed;
  for (std::size_t index : order) {
    Item& item = items[index];
    std::vector<const Item*> alive;
    for (std::size_t other : placed)
      if (items[other].first <= item.last && item.first <= items[other].last) alive.push_back(&items[other]);
    std::sort(alive.begin(), alive.end(), [](const Item* a, const Item* b) { return a->offset < b->offset; });
    item.offset = 0;
    for (const Item* other : alive) {
      if (item.offset + aligned(item.bytes) <= other->offset) break;
      item.offset = std::max(item.offset, other->offset + aligned(other->bytes));
    }
    result.bytes = std::max(result.bytes, item.offset + aligned(item.bytes));
    placed.push_back(index);
  }

  std::map<int, std::ptrdiff_t> change;
  for (const Item& item : items) {
    change[item.first] += static_cast<std::ptrdiff_t>(aligned(item.bytes));
    change[item.last + 1] -= static_cast<std::ptrdiff_t>(aligned(item.bytes));
  }
  std::ptrdiff_t alive = 0;
  for (const auto& [position, bytes] : change) {
    alive += bytes;
    result.bound = std::max(result.bound, static_cast<std::size_t>(alive));
    (void)position;
  }
  return result;
}

}  // namespace llmc::plan
