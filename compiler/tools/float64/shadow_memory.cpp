#include "compiler/tools/float64/shadow_memory.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace llmc::float64 {

using namespace graph;

namespace {

bool is_raw(DType type) { return type == DType::rest || type == DType::tie || type == DType::byte; }

/// Reads the element, or byte if the dtype has no numbers, in which two rows of memory first differ.
Worst difference(DType type, std::span<const std::byte> noted, std::span<const std::byte> found) {
  const auto at = std::ranges::mismatch(noted, found).in1 - noted.begin();
  Worst worst{std::numeric_limits<double>::infinity()};
  if (is_raw(type)) {
    worst.exact = std::to_integer<int>(noted[static_cast<std::size_t>(at)]);
    worst.found = std::to_integer<int>(found[static_cast<std::size_t>(at)]);
    worst.column = at;
    return worst;
  }
  const Extent one{1, 1, 1, type};
  worst.column = at / one.bytes();
  const auto first = static_cast<std::size_t>(worst.column * one.bytes());
  widen(one, noted.subspan(first), {&worst.exact, 1, 1, 1});
  widen(one, found.subspan(first), {&worst.found, 1, 1, 1});
  return worst;
}

/// Bytes [begin, end) of a row of an operand in its buffer; `column`: of the operand's first element there.
std::pair<std::int64_t, std::int64_t> row_in_buffer(const Place& place, const Extent& extent, std::int64_t row) {
  const std::int64_t first = (place.row + row) * extent.pitch + place.column;
  return {bytes_of(extent.dtype, first), bytes_of(extent.dtype, first + extent.cols)};
}

}  // namespace

void ShadowMemory::note(const ScheduledOp& launch, TensorId id, const Extent& extent,
                        std::span<const std::byte> bytes) {
  const Place place = place_of(plan_, launch, id);
  Buffer& buffer = buffers_[{place.buffer, place.copy}];
  const std::int64_t first = row_in_buffer(place, extent, 0).first;
  const auto least = static_cast<std::size_t>(first) + bytes.size();
  if (buffer.bytes.size() < least) buffer.bytes.resize(least);
  std::ranges::copy(bytes, buffer.bytes.begin() + first);
  for (std::int64_t row = 0; row < extent.rows; ++row) {
    auto [begin, end] = row_in_buffer(place, extent, row);
    auto next = buffer.noted.upper_bound(begin);
    if (next != buffer.noted.begin() && std::prev(next)->second >= begin) --next;
    while (next != buffer.noted.end() && next->first <= end) {
      begin = std::min(begin, next->first);
      end = std::max(end, next->second);
      next = buffer.noted.erase(next);
    }
    buffer.noted.emplace_hint(next, begin, end);
  }
}

bool ShadowMemory::knows(const ScheduledOp& launch, TensorId id, const Extent& extent) const {
  const Place place = place_of(plan_, launch, id);
  const auto buffer = buffers_.find({place.buffer, place.copy});
  if (buffer == buffers_.end()) return false;
  const std::int64_t first = row_in_buffer(place, extent, 0).first;
  const auto next = buffer->second.noted.upper_bound(first);
  return next != buffer->second.noted.begin() && std::prev(next)->second > first;
}

std::optional<Worst> ShadowMemory::changed(const ScheduledOp& launch, TensorId id, const Extent& extent,
                                           std::span<const std::byte> bytes) const {
  const Place place = place_of(plan_, launch, id);
  const auto found = buffers_.find({place.buffer, place.copy});
  if (found == buffers_.end()) return {};
  const auto& [noted, ranges] = found->second;
  const std::int64_t first = row_in_buffer(place, extent, 0).first;
  for (std::int64_t row = 0; row < extent.rows; ++row) {
    const auto [row_begin, row_end] = row_in_buffer(place, extent, row);
    auto range = ranges.upper_bound(row_begin);
    if (range != ranges.begin()) --range;
    for (; range != ranges.end() && range->first < row_end; ++range) {
      const std::int64_t begin = std::max(row_begin, range->first), end = std::min(row_end, range->second);
      if (begin >= end) continue;
      const auto count = static_cast<std::size_t>(end - begin);
      const std::span before(noted.data() + begin, count);
      const std::span now = bytes.subspan(static_cast<std::size_t>(begin - first), count);
      if (std::memcmp(before.data(), now.data(), count) == 0) continue;
      Worst worst = difference(extent.dtype, before, now);
      worst.row = row;
      worst.column +=
          is_raw(extent.dtype) ? begin - row_begin : (begin - row_begin) / Extent{1, 1, 1, extent.dtype}.bytes();
      return worst;
    }
  }
  return {};
}

void ShadowMemory::forget_inputs() {
  std::erase_if(buffers_, [&](const auto& buffer) { return plan_.graph.at(buffer.first.first).role == Role::input; });
}

}  // namespace llmc::float64
