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

/// Progress in one source. A run that keeps its sequence_length has one segment. After a change within an epoch it
/// continues in the order of the new length and skips targets that earlier segments trained on: see SampleWalk.
struct SourceProgress {
  std::uint64_t epoch = 0;
  std::vector<EpochSegment> segments;  // of this epoch, in order; empty: at its beginning

  bool operator==(const SourceProgress&) const = default;
};

/// Same progress for samples of `sequence_length`.
SourceProgress continue_with(SourceProgress progress, std::int64_t sequence_length);

/// A source that the run draws from, or has drawn from.
struct SourcePosition {
  std::string name = {};     // empty: the only source of a run without names
  std::string order = {};    // name that keys its order of samples: its first one
  std::string data = {};     // fingerprint of its shards; empty without a name
  double weight = 0;         // 0: not in the mixture any more; without a name 1
  std::uint64_t tokens = 0;  // trained on so far; without a name 0
  SourceProgress progress = {};

  bool operator==(const SourcePosition&) const = default;
};

struct DataPosition {
  std::uint64_t tokens = 0;             // trained on so far, in all epochs
  std::vector<SourcePosition> sources;  // by name; empty: at the beginning of a run
  std::uint64_t drawn = 0;              // samples since the weights took effect; without a name 0

  bool operator==(const DataPosition&) const = default;
};

/// Position of a run with one source without a name.
DataPosition plain_position(std::uint64_t tokens, SourceProgress progress);

/// Whether the run has one source without a name.
bool is_plain(const DataPosition& position);

/// Same position for a run whose tokens, in all and of each source, are those of `of`.
DataPosition with_tokens(DataPosition position, const DataPosition& of);

/// Same position for samples of `sequence_length`, from all sources of the mixture.
DataPosition continue_with(DataPosition position, std::int64_t sequence_length);

/// Tokens trained on so far, in all epochs.
inline std::uint64_t tokens_of(const DataPosition& position) { return position.tokens; }
/// Epochs completed: of a mixture, of the source that has completed fewest.
std::uint64_t epoch_of(const DataPosition& position);
/// Sequence length of samples read at this position; 0 at the beginning of an epoch, where none is set.
std::int64_t length_of(const DataPosition& position);
/// Epochs completed, including the fraction of the current one. `all`: tokens of an epoch. After a change of
/// sequence_length the expected fraction: samples of a new length, in an order of their own, hold targets that earlier
/// segments trained on in proportion to what these visited.
double epochs_of(const SourceProgress& progress, double all);
/// Rejects values that no position can have: the file may have been edited.
bool is_possible(const DataPosition& position);
/// Names and values, for comparing positions in messages.
std::vector<std::pair<std::string, std::string>> fields_of(const DataPosition& position);

/// Adds the keys tokens, epoch and visited; of a mixture tokens, drawn and sources. `Json`: nlohmann::json or
/// nlohmann::ordered_json.
template <class Json>
void write_position(Json& object, const DataPosition& position);
/// Reads the keys of write_position(). Throws Json::exception if one is missing or has another type.
template <class Json>
DataPosition read_position(const Json& object);

}  // namespace llmc
