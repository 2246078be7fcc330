// How the ranks of a run share out the flat buffers of all parameters: bucket by bucket, to each rank one stretch of
// it.
#pragma once

#include <cstdint>
#include <span>

#include "program/mesh.h"

namespace llmc {

/// What the ranks of a run share out among them; each word shares out what those before it do.
enum class Shard { none, optimizer, gradients, parameters };

/// A stretch of the flat buffers that is reduced and gathered at once: the matrices of one block, or all vectors.
/// The kShareGap elements after it belong to no parameter.
struct Bucket {
  std::int64_t offset;    // elements
  std::int64_t elements;  // parameters, and the padding between them
};

inline constexpr std::int64_t kShareUnit = 8;  // elements: 16 bytes of bf16, the narrowest type that is gathered
inline constexpr int kMostRanks = 512;
/// All shares of a bucket are equally long, so that the last ones may reach past its end: by less than this.
inline constexpr std::int64_t kShareGap = kShareUnit * kMostRanks;

/// Elements of one rank's share of a bucket.
constexpr std::int64_t share_of(std::int64_t elements, int ranks) {
  const std::int64_t units = (elements + kShareUnit - 1) / kShareUnit;
  return (units + ranks - 1) / ranks * kShareUnit;
}

/// Which part of each flat buffer one rank keeps the optimizer's state of, and updates.
class Shares {
 public:
  /// All of it.
  explicit Shares(std::span<const Bucket> buckets) : Shares(buckets, DataRank{}) {}
  Shares(std::span<const Bucket> buckets, DataRank rank) : buckets_(buckets), rank_(rank) {}

  /// Elements of a buffer of the optimizer's state. Of one rank: as many as a flat buffer has, up to the end of the
  /// last bucket, so that an element's place is the same in both.
  std::int64_t state_elements() const {
    if (ranks() == 1) return buckets_.empty() ? 0 : buckets_.back().offset + buckets_.back().elements;
    std::int64_t elements = 0;
    for (const Bucket& bucket : buckets_) elements += share_of(bucket.elements, ranks());
    return elements;
  }

  /// Where this rank's share of a bucket begins in a buffer of shares; of one rank the bucket.
  std::int64_t begin_of(std::size_t bucket) const {
    if (ranks() == 1) return buckets_[bucket].offset;
    std::int64_t begin = 0;
    for (const Bucket& before : buckets_.first(bucket)) begin += share_of(before.elements, ranks());
    return begin;
  }

  /// Calls part(flat, state, elements) for each stretch of [offset, offset + count) of a flat buffer that this rank
  /// has: where it lies there, and in a buffer of state.
  template <class Part>
  void own(std::int64_t offset, std::int64_t count, Part part) const {
    if (ranks() == 1) return part(offset, offset, count);
    std::int64_t state = 0;
    for (const Bucket& bucket : buckets_) {
      const std::int64_t share = share_of(bucket.elements, ranks()), begin = bucket.offset + rank_.index * share;
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
};

}  // namespace llmc
