// Iterates over the samples of a source from any position in it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/order/order.h"
#include "data/order/position.h"
#include "data/shards.h"

namespace llmc {

/// Visits the samples of `sequence_length` in each epoch's order. If the position has segments of other lengths,
/// targets they trained on become -1 (such tokens are context only). Samples without other targets are skipped.
class SampleWalk {
 public:
  /// Throws Failure(data) if the shards contain no sample, Failure(checkpoint) if the position lies past the end of its
  /// epoch.
  SampleWalk(std::shared_ptr<const TokenShards> shards, std::uint64_t seed, std::int64_t sequence_length,
             SourceProgress start);

  const Samples& samples() const { return samples_; }
  const SourceProgress& progress() const { return progress_; }

  /// Number of a sample, and of its targets that its epoch had not trained on.
  struct Visited {
    std::uint64_t id;
    std::int64_t targets;

    bool operator==(const Visited&) const = default;
  };
  /// Advances to the next sample with targets left. `read` is called with a sample's number and returns its targets
  /// [sequence_length]; those already trained on in this epoch are set to -1.
  template <class Read>
  Visited next(Read read) {
    while (true) {
      const std::uint64_t id =
          order_.at(progress_.epoch * static_cast<std::uint64_t>(samples_.count()) + progress_.segments.back().samples);
      const std::int64_t left = mask_visited(id, read(id));
      step_place();
      if (left > 0) return {id, left};
    }
  }
  /// Same without reading it.
  Visited next();

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
  SourceProgress progress_;
  std::vector<std::int32_t> targets_;  // scratch
};

}  // namespace llmc
