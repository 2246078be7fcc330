#include "data/order/sources.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "data/order/mixture.h"

namespace llmc {

namespace {

using Records = std::vector<SourcePosition>;

/// Removes a record from the list and returns it.
template <class Wanted>
std::optional<SourcePosition> take(Records& records, const Wanted& wanted) {
  const auto found = std::ranges::find_if(records, wanted);
  if (found == records.end()) return std::nullopt;
  SourcePosition record = std::move(*found);
  records.erase(found);
  return record;
}

/// Records of all sources with their data, which a source without a name does not store.
Records records_of(const PositionIn& in) {
  Records records = in.position.sources;
  if (records.empty()) records.push_back({.weight = 1});
  if (is_plain(in.position)) {
    records[0].data = in.data;
    records[0].tokens = in.position.tokens;
  }
  return records;
}

void begin_next_epoch(SourceProgress& progress) { progress = {progress.epoch + 1, {}}; }

bool draws_alike(const Records& before, const Records& now) {
  const auto mixture = [](const Records& records) {
    std::pair<std::vector<std::string>, std::vector<double>> of;
    for (const SourcePosition& record : records)
      if (record.weight > 0) of.first.push_back(record.name), of.second.push_back(record.weight);
    return of;
  };
  const auto [old_names, old_weights] = mixture(before);
  const auto [names, weights] = mixture(now);
  return old_names == names && same_mixture(old_weights, weights);
}

/// A run with one source that never had a name has fewer fields to save.
DataPosition without_fields_of_mixtures(DataPosition position) {
  if (!is_plain(position)) return position;
  for (SourcePosition& source : position.sources) {
    source.data.clear();
    source.weight = 1;
    source.tokens = 0;
  }
  position.drawn = 0;
  return position;
}

}  // namespace

std::vector<double> weights_of(const Sources& sources) {
  std::vector<double> weights;
  for (const Source& source : sources) weights.push_back(source.weight);
  return weights;
}

SampleNames sample_names(const Sources& sources) {
  std::vector<std::string> names;
  for (const Source& source : sources) names.push_back(source.name);
  return SampleNames(std::move(names));
}

std::vector<SourceSize> sizes_of(const Sources& sources, std::int64_t sequence_length) {
  std::vector<SourceSize> sizes;
  for (const Source& source : sources) sizes.push_back({source.name, source.shards->samples(sequence_length)});
  return sizes;
}

TokenShards::Identity identify(Sources& sources) {
  TokenShards::Identity all;
  XXH64_hash_t hash = 0;
  for (Source& source : sources) {
    TokenShards::Identity own = source.shards->identify();
    source.data = own.fingerprint;
    if (source.name.empty()) return own;
    const std::string named = source.name + '\0' + own.fingerprint;
    hash = XXH3_64bits_withSeed(named.data(), named.size(), hash);
    for (ShardRecord& shard : own.shards) {
      shard.file = source.name + ": " + shard.file;
      all.shards.push_back(std::move(shard));
    }
  }
  all.fingerprint = fmt::format("{:016x}", hash);
  return all;
}

DataPosition beginning(const Sources& sources) {
  DataPosition position;
  for (const Source& source : sources)
    position.sources.push_back(
        {.name = source.name, .order = source.name, .data = source.data, .weight = source.weight});
  return without_fields_of_mixtures(std::move(position));
}

DataPosition continue_in(const PositionIn& now, const PositionIn& saved, bool same_order) {
  Records sources = records_of(now), left = records_of(saved);
  DataPosition position{saved.position.tokens, {}, draws_alike(left, sources) ? saved.position.drawn : 0};
  const auto continue_from = [&](SourcePosition& source, const SourcePosition& record) {
    source.order = record.order;
    source.tokens = record.tokens;
    source.progress = record.progress;
    if (!same_order || record.data != source.data) begin_next_epoch(source.progress);
  };
  std::vector<SourcePosition*> others;
  for (SourcePosition& source : sources) {
    const auto same =
        take(left, [&](const SourcePosition& r) { return r.name == source.name && r.data == source.data; });
    if (same)
      continue_from(source, *same);
    else
      others.push_back(&source);
  }
  for (SourcePosition* source : others) {
    auto record = take(left, [&](const SourcePosition& r) { return r.data == source->data; });
    if (!record) record = take(left, [&](const SourcePosition& r) { return r.name == source->name; });
    if (record) continue_from(*source, *record);
  }
  position.sources = std::move(sources);
  for (SourcePosition& record : left) {
    const auto same_name = std::ranges::find(position.sources, record.name, &SourcePosition::name);
    if (record.name.empty() || same_name != position.sources.end()) continue;
    record.weight = 0;
    position.sources.push_back(std::move(record));
  }
  std::ranges::sort(position.sources, {}, &SourcePosition::name);
  return without_fields_of_mixtures(std::move(position));
}

std::vector<SourceChange> source_changes(const PositionIn& before, const PositionIn& after) {
  const auto drawn = [](const PositionIn& in) {
    std::map<std::string, SourcePosition> records;
    for (const SourcePosition& record : records_of(in))
      if (record.weight > 0) records[record.name] = record;
    return records;
  };
  const auto sum = [](const auto& records) {
    double all = 0;
    for (const auto& [name, record] : records) all += record.weight;
    return all;
  };
  const auto old = drawn(before), now = drawn(after);
  const double old_sum = sum(old), now_sum = sum(now);
  std::vector<SourceChange> changes;
  for (const auto& [name, record] : old) {
    const auto found = now.find(name);
    if (found == now.end()) {
      changes.push_back({name, SourceChange::removed, record.data, "none"});
      continue;
    }
    const SourcePosition& is = found->second;
    if (is.data != record.data) changes.push_back({name, SourceChange::data, record.data, is.data});
    const double share = is.weight / now_sum, was = record.weight / old_sum;
    // The only source has all samples, whatever its weight is.
    const bool alone = old.size() == 1 || now.size() == 1;
    if (!alone && is.weight != record.weight && std::abs(share - was) > 1e-12 * was)
      changes.push_back({name, SourceChange::weight, fmt::format("{}", record.weight), fmt::format("{}", is.weight)});
  }
  for (const auto& [name, record] : now)
    if (!old.contains(name)) changes.push_back({name, SourceChange::added, "none", record.data});
  return changes;
}

Sources sources_at(const Sources& now, const PositionIn& at) {
  Sources sources;
  for (const SourcePosition& record : records_of(at)) {
    if (record.weight == 0) continue;
    const auto found = std::ranges::find(now, record.data, &Source::data);
    if (found == now.end()) return {};
    sources.push_back(*found);
    sources.back().name = record.name;
    sources.back().weight = record.weight;
  }
  return sources;
}

std::vector<std::pair<std::string, std::uint64_t>> epochs_by_name(const DataPosition& position) {
  std::vector<std::pair<std::string, std::uint64_t>> epochs;
  for (const SourcePosition& source : position.sources)
    if (source.weight > 0 && !source.name.empty()) epochs.emplace_back(source.name, source.progress.epoch);
  return epochs;
}

std::uint64_t order_seed(std::uint64_t seed, std::string_view order) {
  return order.empty() ? seed : XXH3_64bits_withSeed(order.data(), order.size(), seed);
}

std::vector<SourceUse> uses_of(const DataPosition& position, std::span<const SourceSize> sizes,
                               std::int64_t sequence_length) {
  std::vector<SourceUse> uses;
  for (const SourceSize& size : sizes) {
    const auto source = std::ranges::find(position.sources, size.name, &SourcePosition::name);
    if (size.name.empty() || source == position.sources.end()) continue;
    const double tokens = static_cast<double>(size.samples) * static_cast<double>(sequence_length);
    uses.push_back({size.name, source->tokens, epochs_of(source->progress, tokens)});
  }
  return uses;
}

double epochs_of(const DataPosition& position, std::span<const SourceSize> sizes, std::int64_t sequence_length) {
  double passed = 0, all = 0;
  for (const SourceSize& size : sizes) {
    const auto source = std::ranges::find(position.sources, size.name, &SourcePosition::name);
    if (source == position.sources.end()) continue;
    const double tokens = static_cast<double>(size.samples) * static_cast<double>(sequence_length);
    const double epochs = epochs_of(source->progress, tokens);
    if (sizes.size() == 1) return epochs;
    passed += epochs * static_cast<double>(size.samples);
    all += static_cast<double>(size.samples);
  }
  return all > 0 ? passed / all : 0;
}

}  // namespace llmc
