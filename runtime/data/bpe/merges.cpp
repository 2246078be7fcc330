#include "data/bpe/merges.h"

#include <algorithm>
#include <bit>

namespace llmc {
namespace {

constexpr std::uint64_t kFree = ~std::uint64_t{0};  // no pair: ids are not negative

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(std::size_t pairs)
    : slots_(std::bit_ceil(std::max<std::size_t>(2 * pairs, 2)), Merge{kFree, 0, 0}) {}

std::size_t MergeTable::slot(std::uint64_t key) const {
  // Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4) of the mixed halves.
  const std::uint64_t mixed = (key ^ key >> 29) * 0x9e3779b97f4a7c15;
  std::size_t at = (mixed ^ mixed >> 32) & (slots_.size() - 1);
  while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & (slots_.size() - 1);
  return at;
}

void MergeTable::set(std::int32_t left, std::int32_t right, std::int32_t rank, std::int32_t merged) {
  const std::uint64_t key = key_of(left, right);
  slots_[slot(key)] = {key, rank, merged};
}

const MergeTable::Merge* MergeTable::find(std::int32_t left, std::int32_t right) const {
  const Merge& found = slots_[slot(key_of(left, right))];
  return found.key == kFree ? nullptr : &found;
}

void MergeTable::apply(std::vector<std::int32_t>& ids, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& queue = scratch.queue;
  symbols.clear();
  queue.clear();
  const auto count = static_cast<std::int32_t>(ids.size());
  for (std::int32_t i = 0; i < count; ++i)
    symbols.push_back({ids[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  const auto symbol = [&](std::int32_t at) -> Scratch::Symbol& { return symbols[static_cast<std::size_t>(at)]; };
  const auto later = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  const auto candidate = [&](std::int32_t at) -> const Merge* {
    return symbol(at).next < 0 ? nullptr : find(symbol(at).id, symbol(symbol(at).next).id);
  };
  for (std::int32_t i = 0; i + 1 < count; ++i)
    if (const Merge* merge = candidate(i)) queue.push_back({merge->rank, i, merge->merged});
  std::ranges::make_heap(queue, later);
  const auto push = [&](std::int32_t at) {
    if (const Merge* merge = candidate(at)) {
      queue.push_back({merge->rank, at, merge->merged});
      std::ranges::push_heap(queue, later);
    }
  };
  while (!queue.empty()) {
    std::ranges::pop_heap(queue, later);
    const Scratch::Candidate best = queue.back();
    queue.pop_back();
    if (symbol(best.at).id < 0) continue;  // merged into the symbol to its left
    const Merge* merge = candidate(best.at);
    if (!merge || merge->merged != best.merged) continue;
    Scratch::Symbol& left = symbol(best.at);
    Scratch::Symbol& right = symbol(left.next);
    left.id = best.merged;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbol(left.next).previous = best.at;
    if (left.previous >= 0) push(left.previous);
    push(best.at);
  }
  ids.clear();
  for (std::int32_t at = count > 0 ? 0 : -1; at >= 0; at = symbol(at).next) ids.push_back(symbol(at).id);
}

}  // namespace llmc
