#include "run/history.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

namespace llmc {
namespace {

using Json = nlohmann::ordered_json;

std::string shown(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

Json as_json(const Environment& e) {
  return {{"llmc", e.version},        {"build", e.build},     {"arch", e.arch},   {"device", e.device},
          {"libraries", e.libraries}, {"threads", e.threads}, {"ranks", e.ranks}, {"tuned", e.tuned}};
}

Json as_json(const DataOrder& order) {
  Json json{{"seed", order.seed}};
  write_position(json, order.position);
  json["samples_per_step"] = order.samples_per_step;
  return json;
}

/// Throws Json::exception.
DataOrder order_of(const Json& line) {
  const Json& from = line.at("order");
  DataOrder order;
  line.at("data").get_to(order.data);
  from.at("seed").get_to(order.seed);
  order.position = read_position(from);
  from.at("samples_per_step").get_to(order.samples_per_step);
  return order;
}

/// Rejects values that no run can have: the file may have been edited.
bool possible(const DataOrder& order) {
  return order.samples_per_step > 0 && length_of(order.position) > 0 && is_possible(order.position);
}

/// Returns the last line that ends at or before `end` and moves `end` to its start; empty at the beginning.
std::string line_before(const std::string& text, std::size_t& end) {
  while (end > 0 && text[end - 1] == '\n') --end;
  const std::size_t last = end;
  while (end > 0 && text[end - 1] != '\n') --end;
  return text.substr(end, last - end);
}

/// Returns the last line before `end` that is a JSON object and moves `end` to its start; nothing if there is none.
std::optional<Json> object_before(const std::string& text, std::size_t& end) {
  while (end > 0) {
    std::optional<Json> line(std::in_place, Json::parse(line_before(text, end), nullptr, false));
    if (line->is_object()) return line;
  }
  return std::nullopt;
}

/// Sequence length of the last line before `end` that has one; 0 if none has.
std::int64_t length_before(const std::string& text, std::size_t end) {
  while (const std::optional<Json> line = object_before(text, end)) try {
      if (const std::int64_t length = length_of(order_of(*line).position); length > 0) return length;
    } catch (const Json::exception&) {
      return 0;
    }
  return 0;
}

}  // namespace

std::string format_history(const HistoryEntry& entry) {
  Json line = {{"step", entry.step}, {"time", entry.time}, {"checkpoint", entry.checkpoint}};
  if (!entry.weights.empty()) line["weights"] = entry.weights;
  line.update(as_json(entry.environment));
  line["memory"] = entry.memory;
  if (entry.product_flops) line["product_flops"] = *entry.product_flops;
  line["model"] = entry.model;
  line["data"] = entry.order.data;
  for (const ShardRecord& shard : entry.shards)
    line["shards"].push_back({{"file", shard.file}, {"tokens", shard.tokens}, {"xxh3", shard.xxh3}});
  line["order"] = as_json(entry.order);
  line["spec"] = entry.spec;
  line["overrides"] = entry.overrides;
  line["allowed"] = entry.allowed;
  Json& changed = line["changed"] = Json::object();
  for (const spec::Change& change : entry.changed) changed[change.path] = {change.before, change.after};
  if (!entry.converted.empty()) line["converted"] = entry.converted;
  if (entry.phase > 0) line["phase"] = entry.phase;
  if (entry.same_start) line["same_start"] = true;
  if (entry.rollbacks > 0) line["rollbacks"] = entry.rollbacks;
  if (entry.plateau_told) line["plateau_told"] = true;
  if (!entry.why.empty()) line["rollback"] = {{"from_step", entry.left_step}, {"why", entry.why}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Environment last_environment(const std::string& text) {
  std::size_t end = text.size();
  const Json line = object_before(text, end).value_or(Json::object());
  try {
    Environment e;
    line.at("llmc").get_to(e.version);
    line.at("build").get_to(e.build);
    line.at("arch").get_to(e.arch);
    line.at("device").get_to(e.device);
    line.at("libraries").get_to(e.libraries);
    line.at("threads").get_to(e.threads);
    line.at("ranks").get_to(e.ranks);
    line.at("tuned").get_to(e.tuned);
    return e;
  } catch (const Json::exception&) {
    return {};
  }
}

std::optional<OrderFrom> order_after(const std::string& text, std::int64_t step) {
  std::size_t end = text.size();
  while (const std::optional<Json> line = object_before(text, end)) try {
      const auto from = line->at("step").get<std::int64_t>();
      if (from > step) continue;  // earlier entries past this step were abandoned and are not part of the run
      OrderFrom found{from, line->at("checkpoint").get<std::string>(), order_of(*line),
                      line->value("rollbacks", std::int64_t{0}), line->value("plateau_told", false)};
      DataPosition& position = found.order.position;
      // An older llmc left the length out of a phase that began in other data. Its process had the length before.
      if (length_of(position) == 0 && line->value("same_start", false))
        position = continue_with(std::move(position), length_before(text, end));
      if (!possible(found.order)) return std::nullopt;
      return found;
    } catch (const Json::exception&) {
      return std::nullopt;
    }
  return std::nullopt;
}

int phase_in_history(const std::string& text, std::int64_t step) {
  std::size_t end = text.size();
  while (const std::optional<Json> line = object_before(text, end)) {
    const auto from = line->find("step");
    if (from == line->end() || !from->is_number_integer() || *from > step) continue;
    step = from->get<std::int64_t>();  // earlier lines past a later one's step were abandoned
    if (const auto phase = line->find("phase"); phase != line->end() && phase->is_number_integer()) return *phase;
    if (step == 0) return 1;
  }
  return 0;
}

std::optional<std::vector<ShardRecord>> shards_of(const std::string& text, const std::string& data) {
  std::size_t end = text.size();
  while (const std::optional<Json> line = object_before(text, end)) try {
      if (line->at("data") != data || !line->contains("shards")) continue;
      std::vector<ShardRecord> shards;
      for (const Json& shard : line->at("shards"))
        shards.push_back({shard.at("file"), shard.at("tokens"), shard.at("xxh3")});
      return shards;
    } catch (const Json::exception&) {
      continue;
    }
  return std::nullopt;
}

std::string last_checkpoint(const std::string& text) {
  std::size_t end = text.size();
  const Json line = object_before(text, end).value_or(Json::object());
  const auto checkpoint = line.find("checkpoint");
  return checkpoint != line.end() && checkpoint->is_string() ? checkpoint->get<std::string>() : "";
}

std::string last_spec(const std::string& text) {
  std::size_t end = text.size();
  while (const std::optional<Json> line = object_before(text, end)) {
    const auto spec = line->find("spec");
    if (spec != line->end() && spec->is_string() && *spec != "" && *spec != "spec.yaml") return *spec;
  }
  return {};
}

std::vector<std::string> differences(const Environment& before, const Environment& after) {
  std::vector<std::string> texts;
  if (before == Environment{}) return texts;
  const Json a = as_json(before), b = as_json(after);
  for (const auto& [name, value] : b.items())
    if (a.at(name) != value) {
      const auto text = [](const Json& v) { return v == "" ? std::string("none") : shown(v); };
      texts.push_back(name + " " + text(a.at(name)) + " -> " + text(value));
    }
  return texts;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace llmc
