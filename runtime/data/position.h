// Where a run stands in its data: all that the loader needs to resume. Its members are runtime/data's own.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
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

/// The same place for a run that was trained on `tokens`.
inline DataPosition with_tokens(DataPosition position, std::uint64_t tokens) {
  position.tokens = tokens;
  return position;
}

/// Tokens that the run was trained on so far, in all epochs.
inline std::uint64_t tokens_of(const DataPosition& position) { return position.tokens; }
/// Epochs that are behind the run.
inline std::uint64_t epoch_of(const DataPosition& position) { return position.epoch; }
/// Tokens of a sample that is read there; 0 at the beginning of an epoch, which has no length yet.
inline std::int64_t length_of(const DataPosition& position) {
  return position.stretches.empty() ? 0 : position.stretches.back().sequence_length;
}
/// Epochs with the part of this one that is behind the run. `all`: tokens of an epoch.
double epochs_of(const DataPosition& position, double all);
/// Whether numbers that somebody wrote can be a position.
bool is_possible(const DataPosition& position);
/// Names and values as people compare them.
std::vector<std::pair<std::string, std::string>> fields_of(const DataPosition& position);

/// Adds the keys tokens, epoch and visited. `Json`: nlohmann::json or nlohmann::ordered_json.
template <class Json>
void write_position(Json& object, const DataPosition& position);
/// Reads the keys of write_position(). Throws Json::exception where one is missing or of another type.
template <class Json>
DataPosition read_position(const Json& object);

}  // namespace llmc
