// Iterates over the samples of a run from any position in its data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/order.h"
#include "data/position.h"
#include "data/shards.h"

namespace llmc {

/// Visits the samples of `sequence_length` in each epoch's order. If the position has segments of other lengths,
/// targets they trained on become -1 (such tokens are context only). Samples without other targets are skipped.
class SampleWalk {
 public:
  /// Throws Failure(data) if the shards contain no sample, Failure(checkpoint) if the position lies past the end of its
  /// epoch.
  SampleWalk(std::shared_ptr<const TokenShards> shards, std::uint64_t seed, std::int64_t sequence_length,
             const DataPosition& start);

  const Samples& samples() const { return samples_; }
  /// Current position; its `tokens` are those at the start.
  const DataPosition& position() const { return position_; }

  /// Advances to the next sample with targets left and returns its number. `read` is called with a sample's number and
  /// returns its targets [sequence_length]; those already trained on in this epoch are set to -1.
  template <class Read>
  std::uint64_t next(Read read) {
    while (true) {
      const std::uint64_t id =
          order_.at(position_.epoch * static_cast<std::uint64_t>(samples_.count()) + position_.segments.back().samples);
      const std::int64_t left = mask_visited(id, read(id));
      step_place();
      if (left > 0) return id;
    }
  }
  /// Same without reading it; `targets`: number of its targets left.
  std::uint64_t next(std::int64_t& targets);

  /// Same as calling next() `count` times. Constant time, except for the rest of an epoch with several segments. The
  /// total of targets must be below 2^63.
  void pass_over(std::uint64_t count);

 private:
  std::int64_t mask_visited(std::uint64_t sample, std::span<std::int32_t> targets) const;
  void step_place();

  /// Segment of this epoch before the current one.
  struct Earlier {
    Samples samples;
    SampleOrder order;
    std::uint64_t places;
  };

  Samples samples_;
  SampleOrder order_;
  std::vector<Earlier> earlier_;
  DataPosition position_;
  std::vector<std::int32_t> targets_;  // scratch
};

}  // namespace llmc
