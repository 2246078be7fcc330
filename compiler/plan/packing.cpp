#include "compiler/plan/packing.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace llmc::plan {
namespace {

constexpr std::size_t kFew = 7;    // 5,040 orders
constexpr int kMostAttempts = 64;  // for more buffers

using Order = std::vector<std::size_t>;

class Packer {
 public:
  Packer(std::vector<PackedBuffer>& items, std::size_t alignment) : items_(items), alignment_(alignment) {}

  Packing run() {
    Order order = sorted([&](const PackedBuffer& item) { return item.bytes; });
    Packing result{.bytes = place(order), .bound = bound()};
    Order best = order;
    const auto attempt = [&] {
      const std::size_t bytes = place(order);
      if (bytes >= result.bytes) return;
      result.bytes = bytes;
      best = order;
    };
    const auto highest_first = [&] {
      for (int i = 0; i < kMostAttempts && result.bytes > result.bound; ++i) {
        const auto highest =
            std::ranges::max_element(order, {}, [&](std::size_t item) { return end_of(items_[item]); });
        std::rotate(order.begin(), highest, highest + 1);
        attempt();
      }
    };
    if (items_.size() <= kFew) {
      std::ranges::sort(order);
      while (result.bytes > result.bound && std::ranges::next_permutation(order).found) attempt();
    } else if (result.bytes > result.bound) {
      highest_first();
      // Small, long-lived buffers go last, on top of large ones with short lives.
      order = sorted(
          [&](const PackedBuffer& item) { return item.bytes * static_cast<std::size_t>(item.last - item.first + 1); });
      attempt();
      highest_first();
    }
    place(best);
    return result;
  }

 private:
  /// Returns the items in descending order of `key`.
  Order sorted(auto key) const {
    Order order(items_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return key(items_[i]); });
    return order;
  }

  std::size_t aligned(std::size_t bytes) const { return (bytes + alignment_ - 1) / alignment_ * alignment_; }
  std::size_t end_of(const PackedBuffer& item) const { return item.offset + aligned(item.bytes); }

  /// Gives each item, in this order, the lowest free offset. Returns the bytes that they take.
  std::size_t place(const Order& order) {
    std::size_t bytes = 0;
    std::vector<const PackedBuffer*> placed;  // by offset
    for (const std::size_t index : order) {
      PackedBuffer& item = items_[index];
      item.offset = 0;
      for (const PackedBuffer* other : placed) {
        if (other->first > item.last || item.first > other->last) continue;
        if (end_of(item) <= other->offset) break;
        item.offset = std::max(item.offset, end_of(*other));
      }
      bytes = std::max(bytes, end_of(item));
      placed.insert(std::ranges::upper_bound(placed, item.offset, {}, &PackedBuffer::offset), &item);
    }
    return bytes;
  }

  std::size_t bound() const {
    std::map<int, std::size_t> change;  // of the live bytes; unsigned sums wrap back
    for (const PackedBuffer& item : items_) {
      change[item.first] += aligned(item.bytes);
      change[item.last + 1] -= aligned(item.bytes);
    }
    std::size_t alive = 0, most = 0;
    for (const auto& [position, bytes] : change) most = std::max(most, alive += bytes);
    return most;
  }

  std::vector<PackedBuffer>& items_;
  const std::size_t alignment_;
};

}  // namespace

Packing pack(std::vector<PackedBuffer>& items, std::size_t alignment) { return Packer(items, alignment).run(); }

}  // namespace llmc::plan
