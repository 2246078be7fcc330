// Position of a run in its data: everything the loader needs to resume. Only runtime/data accesses its members.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace llmc {

/// Part of an epoch visited with one sequence length, from the start of that length's order.
struct EpochSegment {
  std::int64_t sequence_length = 0;
  std::uint64_t samples = 0;  // consumed from that order

  bool operator==(const EpochSegment&) const = default;
};

/// A run that keeps its sequence_length has one segment. After a change within an epoch it continues in the order of
/// the new length and skips targets that earlier segments trained on: see Loader.
struct DataPosition {
  std::uint64_t tokens = 0;  // trained on so far, in all epochs
  std::uint64_t epoch = 0;
  std::vector<EpochSegment> segments;  // of this epoch, in order; empty: at its beginning

  bool operator==(const DataPosition&) const = default;
};

/// Same position for samples of `sequence_length`.
inline DataPosition continue_with(DataPosition position, std::int64_t sequence_length) {
  auto& segments = position.segments;
  while (!segments.empty() && segments.back().samples == 0) segments.pop_back();
  if (segments.empty() || segments.back().sequence_length != sequence_length) segments.push_back({sequence_length, 0});
  return position;
}

/// Beginning of the next epoch, for other data or another order.
inline DataPosition begin_epoch(const DataPosition& position) { return {position.tokens, position.epoch + 1, {}}; }

/// Same position for a run trained on `tokens` tokens.
inline DataPosition with_tokens(DataPosition position, std::uint64_t tokens) {
  position.tokens = tokens;
  return position;
}

/// Tokens trained on so far, in all epochs.
inline std::uint64_t tokens_of(const DataPosition& position) { return position.tokens; }
/// Epochs completed.
inline std::uint64_t epoch_of(const DataPosition& position) { return position.epoch; }
/// Sequence length of samples read at this position; 0 at the beginning of an epoch, where none is set.
inline std::int64_t length_of(const DataPosition& position) {
  return position.segments.empty() ? 0 : position.segments.back().sequence_length;
}
/// Epochs completed, including the fraction of the current one. `all`: tokens of an epoch.
double epochs_of(const DataPosition& position, double all);
/// Rejects values that no position can have: the file may have been edited.
bool is_possible(const DataPosition& position);
/// Names and values, for comparing positions in messages.
std::vector<std::pair<std::string, std::string>> fields_of(const DataPosition& position);

/// Adds the keys tokens, epoch and visited. `Json`: nlohmann::json or nlohmann::ordered_json.
template <class Json>
void write_position(Json& object, const DataPosition& position);
/// Reads the keys of write_position(). Throws Json::exception if one is missing or has another type.
template <class Json>
DataPosition read_position(const Json& object);

}  // namespace llmc
