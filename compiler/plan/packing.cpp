#include "compiler/plan/packing.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

namespace llmc::plan {
namespace {

constexpr std::size_t kFew = 7;    // 5,040 orders
constexpr int kMostAttempts = 64;  // for more buffers
constexpr int kWidth = 32;         // positions of a column; most buffers live for fewer

using Order = std::vector<std::size_t>;

class Packer {
 public:
  Packer(std::vector<PackedBuffer>& items, std::size_t alignment) : items_(items) {
    int last = 0;
    for (const PackedBuffer& item : items) {
      sizes_.push_back((item.bytes + alignment - 1) / alignment * alignment);
      last = std::max(last, item.last);
    }
    columns_.resize(column_of(last) + 1);
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
    if (order != best) place(best);
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

  struct Placed {
    int first, last;
    std::size_t begin, end;
  };
  using Column = std::vector<Placed>;  // by offset

  static std::size_t column_of(int position) { return static_cast<std::size_t>(position / kWidth); }

  /// Gives each item, in this order, the lowest free offset. Returns the bytes that they take.
  std::size_t place(const Order& order) {
    std::size_t bytes = 0;
    for (Column& column : columns_) column.clear();
    for (const std::size_t index : order) {
      PackedBuffer& item = items_[index];
      Placed own = {item.first, item.last, 0, sizes_[index]};
      for (const Placed& other : beside(own)) {
        if (other.first > own.last || own.first > other.last) continue;
        if (own.end <= other.begin) break;
        own.begin = std::max(own.begin, other.end);
        own.end = own.begin + sizes_[index];
      }
      item.offset = own.begin;
      bytes = std::max(bytes, own.end);
      for (std::size_t c = column_of(own.first); c <= column_of(own.last); ++c)
        columns_[c].insert(std::ranges::upper_bound(columns_[c], own.begin, {}, &Placed::begin), own);
    }
    return bytes;
  }

  /// Returns all placed items that may be live at the same time, by offset.
  const Column& beside(const Placed& own) {
    const std::size_t first = column_of(own.first), last = column_of(own.last);
    if (first == last) return columns_[first];
    beside_ = columns_[first];
    for (std::size_t c = first + 1; c <= last; ++c)
      std::ranges::copy_if(columns_[c], std::back_inserter(beside_),
                           [&](const Placed& other) { return column_of(other.first) == c; });
    std::ranges::stable_sort(beside_, {}, &Placed::begin);
    return beside_;
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
  std::vector<Column> columns_;     // each with the placed items that are live at one of kWidth positions
  Column beside_;
};

}  // namespace

Packing pack(std::vector<PackedBuffer>& items, std::size_t alignment) { return Packer(items, alignment).run(); }

}  // namespace llmc::plan
