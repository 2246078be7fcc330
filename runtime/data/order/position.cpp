#include "data/order/position.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace llmc {

namespace {

bool is_active(const SourcePosition& source) { return source.weight > 0; }

std::string visited_text(const SourceProgress& progress) {
  std::string visited;
  for (const EpochSegment& segment : progress.segments)
    visited += fmt::format("{}{} of {}", visited.empty() ? "" : ", ", segment.samples, segment.sequence_length);
  return "[" + visited + "]";
}

template <class Json>
void write_progress(Json& object, const SourceProgress& progress) {
  Json visited = Json::array();
  for (const EpochSegment& segment : progress.segments)
    visited.push_back({{"sequence_length", segment.sequence_length}, {"samples", segment.samples}});
  object["epoch"] = progress.epoch;
  object["visited"] = std::move(visited);
}

template <class Json>
SourceProgress read_progress(const Json& object) {
  SourceProgress progress;
  object.at("epoch").get_to(progress.epoch);
  for (const Json& segment : object.at("visited")) {
    EpochSegment& last = progress.segments.emplace_back();
    segment.at("sequence_length").get_to(last.sequence_length);
    segment.at("samples").get_to(last.samples);
  }
  return progress;
}

}  // namespace

SourceProgress continue_with(SourceProgress progress, std::int64_t sequence_length) {
  auto& segments = progress.segments;
  while (!segments.empty() && segments.back().samples == 0) segments.pop_back();
  if (segments.empty() || segments.back().sequence_length != sequence_length) segments.push_back({sequence_length, 0});
  return progress;
}

DataPosition continue_with(DataPosition position, std::int64_t sequence_length) {
  for (SourcePosition& source : position.sources)
    if (is_active(source)) source.progress = continue_with(std::move(source.progress), sequence_length);
  return position;
}

DataPosition plain_position(std::uint64_t tokens, SourceProgress progress) {
  return {tokens, {{.weight = 1, .progress = std::move(progress)}}, 0};
}

bool is_plain(const DataPosition& position) {
  return position.sources.empty() ||
         (position.sources.size() == 1 && position.sources[0].name.empty() && position.sources[0].order.empty());
}

DataPosition with_tokens(DataPosition position, const DataPosition& of) {
  position.tokens = of.tokens;
  for (SourcePosition& source : position.sources) {
    const auto found = std::ranges::find(of.sources, source.name, &SourcePosition::name);
    source.tokens = found == of.sources.end() ? 0 : found->tokens;
  }
  return position;
}

std::uint64_t epoch_of(const DataPosition& position) {
  std::uint64_t fewest = 0;
  bool first = true;
  for (const SourcePosition& source : position.sources)
    if (is_active(source)) {
      fewest = first ? source.progress.epoch : std::min(fewest, source.progress.epoch);
      first = false;
    }
  return fewest;
}

std::int64_t length_of(const DataPosition& position) {
  for (const SourcePosition& source : position.sources)
    if (is_active(source) && !source.progress.segments.empty()) return source.progress.segments.back().sequence_length;
  return 0;
}

double epochs_of(const SourceProgress& progress, double all) {
  double done = 0;  // of this epoch
  for (const EpochSegment& segment : progress.segments) {
    const double visited = static_cast<double>(segment.samples) * static_cast<double>(segment.sequence_length);
    done += (1 - done) * std::min(visited / all, 1.0);
  }
  return static_cast<double>(progress.epoch) + done;
}

bool is_possible(const DataPosition& position) {
  const auto possible = [&](const SourcePosition& source) {
    return std::isfinite(source.weight) && source.weight >= 0 &&
           std::ranges::all_of(source.progress.segments,
                               [](const EpochSegment& segment) { return segment.sequence_length > 0; }) &&
           (!is_active(source) || length_of(position) == 0 ||
            (!source.progress.segments.empty() &&
             source.progress.segments.back().sequence_length == length_of(position)));
  };
  return std::ranges::all_of(position.sources, possible) &&
         (position.sources.empty() || std::ranges::any_of(position.sources, is_active)) &&
         std::ranges::is_sorted(position.sources, {}, &SourcePosition::name) &&
         std::ranges::adjacent_find(position.sources, {}, &SourcePosition::name) == position.sources.end();
}

std::vector<std::pair<std::string, std::string>> fields_of(const DataPosition& position) {
  std::vector<std::pair<std::string, std::string>> fields = {{"tokens", fmt::to_string(position.tokens)}};
  if (is_plain(position)) {
    const SourceProgress progress = position.sources.empty() ? SourceProgress{} : position.sources[0].progress;
    fields.emplace_back("epoch", fmt::to_string(progress.epoch));
    fields.emplace_back("visited", visited_text(progress));
    return fields;
  }
  fields.emplace_back("drawn", fmt::to_string(position.drawn));
  for (const SourcePosition& source : position.sources) {
    const std::string name = source.name.empty() ? "source" : "source " + source.name;
    fields.emplace_back(name + " weight", fmt::to_string(source.weight));
    fields.emplace_back(name + " data", source.data);
    fields.emplace_back(name + " tokens", fmt::to_string(source.tokens));
    fields.emplace_back(name + " epoch", fmt::to_string(source.progress.epoch));
    fields.emplace_back(name + " visited", visited_text(source.progress));
  }
  return fields;
}

template <class Json>
void write_position(Json& object, const DataPosition& position) {
  object["tokens"] = position.tokens;
  if (is_plain(position))
    return write_progress(object, position.sources.empty() ? SourceProgress{} : position.sources[0].progress);
  object["drawn"] = position.drawn;
  Json sources = Json::array();
  for (const SourcePosition& source : position.sources) {
    Json record = {{"name", source.name}};
    if (source.order != source.name) record["order"] = source.order;
    record["data"] = source.data;
    record["weight"] = source.weight;
    record["tokens"] = source.tokens;
    write_progress(record, source.progress);
    sources.push_back(std::move(record));
  }
  object["sources"] = std::move(sources);
}

template <class Json>
DataPosition read_position(const Json& object) {
  DataPosition position;
  object.at("tokens").get_to(position.tokens);
  if (!object.contains("sources")) return plain_position(position.tokens, read_progress(object));
  object.at("drawn").get_to(position.drawn);
  for (const Json& record : object.at("sources")) {
    SourcePosition& source = position.sources.emplace_back();
    record.at("name").get_to(source.name);
    source.order = record.value("order", source.name);
    record.at("data").get_to(source.data);
    record.at("weight").get_to(source.weight);
    record.at("tokens").get_to(source.tokens);
    source.progress = read_progress(record);
  }
  return position;
}

template void write_position(nlohmann::json&, const DataPosition&);
template void write_position(nlohmann::ordered_json&, const DataPosition&);
template DataPosition read_position(const nlohmann::json&);
template DataPosition read_position(const nlohmann::ordered_json&);

}  // namespace llmc
