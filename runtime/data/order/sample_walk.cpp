#include "data/order/sample_walk.h"

#include <fmt/format.h>

#include "error.h"

namespace llmc {

SampleWalk::SampleWalk(std::shared_ptr<const TokenShards> shards, std::uint64_t seed, std::int64_t sequence_length,
                       SourceProgress start)
    : samples_(shards, sequence_length),
      order_(static_cast<std::uint64_t>(samples_.count()), seed),
      progress_(continue_with(std::move(start), sequence_length)),
      targets_(static_cast<std::size_t>(sequence_length)) {
  for (const EpochSegment& segment : progress_.segments) {
    const Samples samples(shards, segment.sequence_length);
    const auto count = static_cast<std::uint64_t>(samples.count());
    if (segment.samples > count)
      throw Failure(Exit::checkpoint, fmt::format("the run is at sample {} of its epoch, in samples of {} tokens, but "
                                                  "the data have only {} samples. Use the data of the run",
                                                  segment.samples, segment.sequence_length, count));
    if (&segment != &progress_.segments.back())
      earlier_.push_back({samples, SampleOrder(count, seed), segment.samples});
  }
}

SampleWalk::Visited SampleWalk::next() {
  return next([&](std::uint64_t) {
    std::ranges::fill(targets_, 0);
    return std::span(targets_);
  });
}

void SampleWalk::pass_over(std::uint64_t count) {
  for (; count > 0 && !earlier_.empty(); --count) next();
  const auto samples = static_cast<std::uint64_t>(samples_.count());
  std::uint64_t& place = progress_.segments.back().samples;
  progress_.epoch += (place + count) / samples;
  place = (place + count) % samples;
}

/// Sets targets that this epoch has already trained on to -1 and returns the number left. Target t of a sample that
/// begins at token o of its shard is token o + t + 1.
std::int64_t SampleWalk::mask_visited(std::uint64_t sample, std::span<std::int32_t> targets) const {
  const auto index = static_cast<std::int64_t>(sample), length = samples_.sequence_length();
  if (earlier_.empty()) return length;
  const std::size_t shard = samples_.shard_of(index);
  const std::int64_t begin = (index - samples_.first_of(shard)) * length, end = begin + length;
  for (const Earlier& earlier : earlier_) {
    const std::int64_t step = earlier.samples.sequence_length(), first = earlier.samples.first_of(shard);
    const std::int64_t count = earlier.samples.first_of(shard + 1) - first;
    for (std::int64_t i = begin / step; i < count && i * step < end; ++i)
      if (earlier.order.place(progress_.epoch, static_cast<std::uint64_t>(first + i)) < earlier.places)
        for (std::int64_t at = std::max(begin, i * step); at < std::min(end, (i + 1) * step); ++at)
          targets[static_cast<std::size_t>(at - begin)] = -1;
  }
  return length - std::ranges::count(targets, -1);
}

void SampleWalk::step_place() {
  if (++progress_.segments.back().samples < static_cast<std::uint64_t>(samples_.count())) return;
  ++progress_.epoch;
  progress_.segments = {{samples_.sequence_length(), 0}};
  earlier_.clear();
}

}  // namespace llmc
