#include "data/position.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace llmc {

double epochs_of(const DataPosition& position, double all) {
  double tokens = 0;  // of this epoch
  for (const Stretch& stretch : position.stretches)
    tokens += static_cast<double>(stretch.samples) * static_cast<double>(stretch.sequence_length);
  return static_cast<double>(position.epoch) + std::min(tokens / all, 1.0);
}

bool is_possible(const DataPosition& position) {
  return std::ranges::all_of(position.stretches, [](const Stretch& stretch) { return stretch.sequence_length > 0; });
}

std::vector<std::pair<std::string, std::string>> fields_of(const DataPosition& position) {
  std::string visited;
  for (const Stretch& stretch : position.stretches)
    visited += fmt::format("{}{} of {}", visited.empty() ? "" : ", ", stretch.samples, stretch.sequence_length);
  return {{"tokens", fmt::to_string(position.tokens)},
          {"epoch", fmt::to_string(position.epoch)},
          {"visited", "[" + visited + "]"}};
}

template <class Json>
void write_position(Json& object, const DataPosition& position) {
  Json visited = Json::array();
  for (const Stretch& stretch : position.stretches)
    visited.push_back({{"sequence_length", stretch.sequence_length}, {"samples", stretch.samples}});
  object["tokens"] = position.tokens;
  object["epoch"] = position.epoch;
  object["visited"] = std::move(visited);
}

template <class Json>
DataPosition read_position(const Json& object) {
  DataPosition position;
  object.at("tokens").get_to(position.tokens);
  object.at("epoch").get_to(position.epoch);
  for (const Json& stretch : object.at("visited")) {
    Stretch& last = position.stretches.emplace_back();
    stretch.at("sequence_length").get_to(last.sequence_length);
    stretch.at("samples").get_to(last.samples);
  }
  return position;
}

template void write_position(nlohmann::json&, const DataPosition&);
template void write_position(nlohmann::ordered_json&, const DataPosition&);
template DataPosition read_position(const nlohmann::json&);
template DataPosition read_position(const nlohmann::ordered_json&);

}  // namespace llmc
