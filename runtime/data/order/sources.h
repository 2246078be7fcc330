// Sources of a run's training data: one without a name, or several with names and weights, which are a mixture.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/order/position.h"
#include "data/order/sample_id.h"
#include "data/shards.h"

namespace llmc {

struct Source {
  std::string name;  // empty: the only one, without a name
  double weight = 1;
  double most_epochs = 0;  // 0: no limit
  std::shared_ptr<const TokenShards> shards;
  std::string data = {};  // fingerprint of the shards: identify()
};

/// By ascending name.
using Sources = std::vector<Source>;

std::vector<double> weights_of(const Sources& sources);

SampleNames sample_names(const Sources& sources);

/// Name of a source and its samples of the run's sequence length, in one epoch.
struct SourceSize {
  std::string name;
  std::int64_t samples;
};
std::vector<SourceSize> sizes_of(const Sources& sources, std::int64_t sequence_length);

/// Fills in `data` of each source. Returns the fingerprint of all, and their shards; those of a source with a name
/// begin with it.
TokenShards::Identity identify(Sources& sources);

/// Position of a run that begins with these sources.
DataPosition beginning(const Sources& sources);

/// A position, and the fingerprint of all its data.
struct PositionIn {
  const DataPosition& position;
  const std::string& data;
};

/// Position of a run that resumes at `saved` with the sources of `now`, which is their beginning(). `same_order`:
/// data.seed has not changed. A source continues where it was, also under a new name. One with other data, or another
/// order, begins its next epoch, and a new one its first. Sources that are gone keep their progress, for when they
/// return. Weights that give another mixture take effect from here on.
DataPosition continue_in(const PositionIn& now, const PositionIn& saved, bool same_order);

/// A source that differs between two positions.
struct SourceChange {
  enum What { added, removed, data, weight };
  std::string name;
  What what;
  std::string before, after;  // fingerprints, or weights; "none" for a source that is not there
};

/// Differences of the sources that are drawn from. Weights that are all multiplied by one number do not differ, and
/// neither does that of a source that was or is the only one.
std::vector<SourceChange> source_changes(const PositionIn& before, const PositionIn& after);

/// Sources that a run drew from at a position, found among those of `now` by their data, also under other names; empty
/// if one is not there.
Sources sources_at(const Sources& now, const PositionIn& at);

/// Epochs completed of each source with a name.
std::vector<std::pair<std::string, std::uint64_t>> epochs_by_name(const DataPosition& position);

/// Seed of a source's order of samples. `order` as in SourcePosition.
std::uint64_t order_seed(std::uint64_t seed, std::string_view order);

/// Use of a source so far.
struct SourceUse {
  std::string name;
  std::uint64_t tokens;  // trained on
  double epochs;         // passes over it, including a fraction
};

/// Uses of the sources with names in `sizes`; none for a source without a name.
std::vector<SourceUse> uses_of(const DataPosition& position, std::span<const SourceSize> sizes,
                               std::int64_t sequence_length);

/// Epochs completed, including a fraction: of a mixture, the mean over all samples of its sources.
double epochs_of(const DataPosition& position, std::span<const SourceSize> sizes, std::int64_t sequence_length);

}  // namespace llmc
