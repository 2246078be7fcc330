#include "data/position.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace llmc {

double epochs_of(const DataPosition& position, double all) {
  double tokens = 0;  // of this epoch
  for (const EpochSegment& segment : position.segments)
    tokens += static_cast<double>(segment.samples) * static_cast<double>(segment.sequence_length);
  return static_cast<double>(position.epoch) + std::min(tokens / all, 1.0);
}

bool is_possible(const DataPosition& position) {
  return std::ranges::all_of(position.segments,
                             [](const EpochSegment& segment) { return segment.sequence_length > 0; });
}

std::vector<std::pair<std::string, std::string>> fields_of(const DataPosition& position) {
  std::string visited;
  for (const EpochSegment& segment : position.segments)
    visited += fmt::format("{}{} of {}", visited.empty() ? "" : ", ", segment.samples, segment.sequence_length);
  return {{"tokens", fmt::to_string(position.tokens)},
          {"epoch", fmt::to_string(position.epoch)},
          {"visited", "[" + visited + "]"}};
}

template <class Json>
void write_position(Json& object, const DataPosition& position) {
  Json visited = Json::array();
  for (const EpochSegment& segment : position.segments)
    visited.push_back({{"sequence_length", segment.sequence_length}, {"samples", segment.samples}});
  object["tokens"] = position.tokens;
  object["epoch"] = position.epoch;
  object["visited"] = std::move(visited);
}

template <class Json>
DataPosition read_position(const Json& object) {
  DataPosition position;
  object.at("tokens").get_to(position.tokens);
  object.at("epoch").get_to(position.epoch);
  for (const Json& segment : object.at("visited")) {
    EpochSegment& last = position.segments.emplace_back();
    segment.at("sequence_length").get_to(last.sequence_length);
    segment.at("samples").get_to(last.samples);
  }
  return position;
}

template void write_position(nlohmann::json&, const DataPosition&);
template void write_position(nlohmann::ordered_json&, const DataPosition&);
template DataPosition read_position(const nlohmann::json&);
template DataPosition read_position(const nlohmann::ordered_json&);

}  // namespace llmc
