// The samples of a run one after the other, from any place in its data.
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

/// Each epoch visits the samples of `sequence_length` in their order. Where the position has stretches of other
/// lengths, the epoch goes on in the order of this length: a target that they have trained on is -1 (its token is
/// context only), and a sample without any other is passed over.
class SampleWalk {
 public:
  /// Throws Failure(Exit::data) when the shards hold no sample, Failure(Exit::checkpoint) when the position lies behind
  /// the end of its epoch.
  SampleWalk(std::shared_ptr<const TokenShards> shards, std::uint64_t seed, std::int64_t sequence_length,
             const DataPosition& start);

  const Samples& samples() const { return samples_; }
  /// Where the walk stands; its `tokens` are those of the start.
  const DataPosition& position() const { return position_; }

  /// The number of the next sample with something left to train on. `read` is called with a sample's number and gives
  /// its targets [sequence_length], of which those that this epoch has trained on become -1.
  template <class Read>
  std::uint64_t next(Read read) {
    while (true) {
      const std::uint64_t id = order_.at(position_.epoch * static_cast<std::uint64_t>(samples_.count()) +
                                         position_.stretches.back().samples);
      const std::int64_t left = mask_visited(id, read(id));
      step_place();
      if (left > 0) return id;
    }
  }
  /// The same without reading it; `targets`: how many it has left.
  std::uint64_t next(std::int64_t& targets);

  /// As next() `count` times; at once, but for what is left of an epoch of several stretches. The targets of all are
  /// below 2^63.
  void pass_over(std::uint64_t count);

 private:
  std::int64_t mask_visited(std::uint64_t sample, std::span<std::int32_t> targets) const;
  void step_place();

  /// A stretch of this epoch before the current one.
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
