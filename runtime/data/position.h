// Where a run stands in its data: all that the loader needs to go on.
#pragma once

#include <cstdint>
#include <vector>

namespace llmc {

/// Samples of one length that an epoch was visited with, from the beginning of that length's order.
struct Stretch {
  std::int64_t sequence_length = 0;
  std::uint64_t samples = 0;  // places of the order that are behind the run

  bool operator==(const Stretch&) const = default;
};

/// A run that keeps its sequence_length has one stretch. One that changes it within an epoch goes on with the order of
/// the new length, and leaves out what the stretches before have trained on: see Loader.
struct DataPosition {
  std::uint64_t tokens = 0;  // trained on so far, in all epochs
  std::uint64_t epoch = 0;
  std::vector<Stretch> stretches;  // of this epoch, in order; empty: at its beginning

  bool operator==(const DataPosition&) const = default;
};

/// The same place for samples of `sequence_length`.
inline DataPosition continue_with(DataPosition position, std::int64_t sequence_length) {
  auto& stretches = position.stretches;
  while (!stretches.empty() && stretches.back().samples == 0) stretches.pop_back();
  if (stretches.empty() || stretches.back().sequence_length != sequence_length)
    stretches.push_back({sequence_length, 0});
  return position;
}

/// The beginning of the next epoch: for other data, or another order of them.
inline DataPosition begin_epoch(const DataPosition& position) { return {position.tokens, position.epoch + 1, {}}; }

}  // namespace llmc
