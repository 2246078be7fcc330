// Shards the flat buffers of all parameters over the ranks: of each bucket, every rank owns one range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "program/mesh.h"
#include "program/parameters.h"

namespace llmc {

/// Tensors that are sharded over the ranks; each value includes those before it.
enum class Shard { none, optimizer, gradients, parameters };

/// Range of the flat buffers that is reduced and gathered in one collective: the matrices of one block, or all vectors.
/// The share_gap(share_unit) elements after it belong to no parameter.
struct Bucket {
  std::int64_t offset;    // elements
  std::int64_t elements;  // of the parameters and the padding between them
};

/// Shares are multiples of this many elements, 16 bytes of bf16, the narrowest type that is gathered; where a tensor of
/// the optimizer's state has an element for each block of more, of that many, so that no block is cut.
inline constexpr std::int64_t kShareUnit = 8;
inline constexpr int kMostRanks = 512;
/// All shares of a bucket are equally long, so that the last ones may reach past its end: by less than this.
constexpr std::int64_t share_gap(std::int64_t unit) { return unit * kMostRanks; }

/// Elements of one rank's share of a bucket: rounded up to whole units.
constexpr std::int64_t share_of(std::int64_t elements, int ranks, std::int64_t unit = kShareUnit) {
  const std::int64_t units = (elements + unit - 1) / unit;
  return (units + ranks - 1) / ranks * unit;
}

/// Buckets [first, past).
struct BucketRange {
  std::size_t first = 0, past = 0;
  constexpr bool empty() const { return first >= past; }
};

/// From the first to the last bucket that has parameters of these groups; {0, 0} if none has. `parameters`:
/// ParameterInfo, or the plan's own.
template <class Parameters>
BucketRange buckets_of(std::span<const Bucket> buckets, const Parameters& parameters, GroupSet groups) {
  if (groups == kAllGroups) return {0, buckets.size()};
  BucketRange range{buckets.size(), 0};
  for (const auto& parameter : parameters) {
    if (!holds(groups, parameter.group)) continue;
    std::size_t bucket = 0;
    while (bucket + 1 < buckets.size() && buckets[bucket + 1].offset <= parameter.offset) ++bucket;
    range = {bucket < range.first ? bucket : range.first, bucket < range.past ? range.past : bucket + 1};
  }
  return range.empty() ? BucketRange{} : range;
}

/// The part of each flat buffer that one rank updates and keeps the optimizer state of.
class Shares {
 public:
  /// All of it.
  explicit Shares(std::span<const Bucket> buckets) : Shares(buckets, DataRank{}) {}
  Shares(std::span<const Bucket> buckets, DataRank rank, std::int64_t unit = kShareUnit)
      : buckets_(buckets), rank_(rank), unit_(unit) {}

  /// Elements of a buffer of shares of all buckets, or of some. Of one rank: as many as a flat buffer has, up to the
  /// end of the last one, so that an element's place is the same in both.
  std::int64_t state_elements() const { return state_elements({0, buckets_.size()}); }
  std::int64_t state_elements(BucketRange range) const {
    if (range.empty()) return 0;
    const std::size_t last = range.past - 1;
    return begin_of(last) + (ranks() == 1 ? buckets_[last].elements : share_of(last)) - begin_of(range.first);
  }

  /// Offset of this rank's shard of a bucket in a sharded buffer; with one rank, of the bucket in the flat buffer.
  std::int64_t begin_of(std::size_t bucket) const {
    if (ranks() == 1) return buckets_[bucket].offset;
    std::int64_t begin = 0;
    for (std::size_t before = 0; before < bucket; ++before) begin += share_of(before);
    return begin;
  }

  /// Elements of a rank's share of a bucket.
  std::int64_t share_of(std::size_t bucket) const { return llmc::share_of(buckets_[bucket].elements, ranks(), unit_); }

  /// Calls part(flat, state, elements) for each stretch of [offset, offset + count) of a flat buffer that this rank
  /// has: where it lies there, and in a buffer of shares of all buckets.
  template <class Part>
  void own(std::int64_t offset, std::int64_t count, Part part) const {
    if (ranks() == 1) return part(offset, offset, count);
    std::int64_t state = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      const Bucket& bucket = buckets_[i];
      const std::int64_t share = share_of(i), begin = bucket.offset + rank_.index * share;
      const std::int64_t first = begin > offset ? begin : offset;
      std::int64_t last = begin + share;
      for (const std::int64_t end : {bucket.offset + bucket.elements, offset + count})
        if (end < last) last = end;
      if (first < last) part(first, state + first - begin, last - first);
      state += share;
    }
  }

  std::span<const Bucket> buckets() const { return buckets_; }
  DataRank rank() const { return rank_; }
  int ranks() const { return rank_.size; }

 private:
  std::span<const Bucket> buckets_;
  DataRank rank_;
  std::int64_t unit_;
};

}  // namespace llmc
