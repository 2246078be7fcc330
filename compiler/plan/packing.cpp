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
  Packer(std::vector<PackedBuffer>& items, std::size_t alignment) : items_(items) {
    for (const PackedBuffer& item : items) sizes_.push_back((item.bytes + alignment - 1) / alignment * alignment);
  }

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
            std::ranges::max_element(order, {}, [&](std::size_t item) { return items_[item].offset + sizes_[item]; });
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

  /// Gives each item, in this order, the lowest free offset. Returns the bytes that they take.
  std::size_t place(const Order& order) {
    struct Placed {
      int first, last;
      std::size_t begin, end;
    };
    std::size_t bytes = 0;
    std::vector<Placed> placed;  // by offset
    placed.reserve(order.size());
    for (const std::size_t index : order) {
      PackedBuffer& item = items_[index];
      Placed own = {item.first, item.last, 0, sizes_[index]};
      for (const Placed& other : placed) {
        if (other.first > own.last || own.first > other.last) continue;
        if (own.end <= other.begin) break;
        own.begin = std::max(own.begin, other.end);
        own.end = own.begin + sizes_[index];
      }
      item.offset = own.begin;
      bytes = std::max(bytes, own.end);
      placed.insert(std::ranges::upper_bound(placed, own.begin, {}, &Placed::begin), own);
    }
    return bytes;
  }

  std::size_t bound() const {
    std::map<int, std::size_t> change;  // of the live bytes; unsigned sums wrap back
    for (std::size_t i = 0; i < items_.size(); ++i) {
      change[items_[i].first] += sizes_[i];
      change[items_[i].last + 1] -= sizes_[i];
    }
    std::size_t alive = 0, most = 0;
    for (const auto& [position, bytes] : change) most = std::max(most, alive += bytes);
    return most;
  }

  std::vector<PackedBuffer>& items_;
  std::vector<std::size_t> sizes_;  // bytes of the items, aligned
};

}  // namespace

Packing pack(std::vector<PackedBuffer>& items, std::size_t alignment) { return Packer(items, alignment).run(); }

}  // namespace llmc::plan
