#include "train/run_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "error.h"
#include "train/value_text.h"

namespace llmc {
namespace {

using Json = nlohmann::json;

/// The rows of keys_json, by name.
class Keys {
 public:
  explicit Keys(const char* text) {
    const Json rows = Json::parse(text, nullptr, false);
    if (!rows.is_array()) throw Failure(Exit::internal, "the trainer's table of keys is not JSON");
    for (const Json& row : rows) rows_[row.at("key")] = row;
  }

  Json& at(const std::string& key) {
    const auto found = rows_.find(key);
    if (found == rows_.end()) throw Failure(Exit::internal, "the trainer's table of keys has no " + key);
    return found->second;
  }
  bool contains(const std::string& key) const { return rows_.count(key) != 0; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, row] : rows_) names.push_back(name);
    return names;
  }
  const std::map<std::string, Json>& rows() const { return rows_; }

 private:
  std::map<std::string, Json> rows_;
};

std::string shown(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// "a number above 0 and at most 1"
std::string expectation(const Json& row) {
  const std::string type = row.at("type");
  if (type == "boolean") return "true or false";
  if (type == "string") return "a text";
  if (type == "strings") return "a list such as [\"a\", \"b\"]";
  if (type == "choice")
    return fmt::format("one of {}", fmt::join(row.at("choices").get<std::vector<std::string>>(), ", "));
  std::string text = type == "integer"   ? "a whole number such as 4096, 4_096 or 4Ki"
                     : type == "bytes"   ? "a size such as 80GiB"
                     : type == "numbers" ? fmt::format("a list of {} numbers", row.value("count", 1))
                                         : "a number such as 0.1 or 3e-4";
  if (row.contains("min"))
    text += fmt::format(", {} {}", row.value("exclusive_min", false) ? "above" : "at least", shown(row["min"]));
  if (row.contains("max"))
    text += fmt::format(", {} {}", row.value("exclusive_max", false) ? "below" : "at most", shown(row["max"]));
  return text;
}

bool within_bounds(const Json& row, double value) {
  if (row.contains("min")) {
    const double low = row["min"];
    if (value < low || (value == low && row.value("exclusive_min", false))) return false;
  }
  if (row.contains("max")) {
    const double high = row["max"];
    if (value > high || (value == high && row.value("exclusive_max", false))) return false;
  }
  return true;
}

/// Nothing when the text is no value of the row's type or is out of bounds.
std::optional<Json> parse_value(const Json& row, const std::string& text) {
  const std::string type = row.at("type");
  if (type == "string") return text;
  if (type == "boolean")
    return text == "true" ? std::optional<Json>(true) : text == "false" ? std::optional<Json>(false) : std::nullopt;
  if (type == "strings") {
    const auto items = parse_list(text);
    return items ? std::optional<Json>(*items) : std::nullopt;
  }
  if (type == "choice") {
    const auto choices = row.at("choices").get<std::vector<std::string>>();
    return std::ranges::find(choices, text) != choices.end() ? std::optional<Json>(text) : std::nullopt;
  }
  if (type == "integer" || type == "bytes") {
    const auto value = parse_integer(text, type == "bytes");
    return value && within_bounds(row, static_cast<double>(*value)) ? std::optional<Json>(*value) : std::nullopt;
  }
  if (type == "number") {
    const auto value = parse_number(text);
    return value && within_bounds(row, *value) ? std::optional<Json>(*value) : std::nullopt;
  }
  if (type == "numbers") {
    const auto items = parse_list(text);
    if (!items || items->size() != row.value("count", items->size())) return std::nullopt;
    Json values = Json::array();
    for (const std::string& item : *items) {
      const auto value = parse_number(item);
      if (!value || !within_bounds(row, *value)) return std::nullopt;
      values.push_back(*value);
    }
    return values;
  }
  return std::nullopt;
}

/// Whether an override of a compiled-in key says what is compiled in anyway.
bool same_value(const Json& row, const std::string& text) {
  const Json& value = row.at("value");
  if (text == shown(value)) return true;
  const std::optional<Json> parsed = parse_value(row, text);
  return parsed && *parsed == value;
}

void apply_override(Keys& keys, const std::string& text, std::set<std::string>& seen) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Failure(Exit::usage,
                  fmt::format("'{}' is not an override; write key.path=value, for example optimizer.lr=1e-3", text));
  const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
  if (!keys.contains(key)) {
    const auto near = nearest_word(key, keys.names());
    throw Failure(Exit::usage, fmt::format("'{}' is no key of a spec; {}", key,
                                           near ? fmt::format("did you mean {}?", *near)
                                                : std::string("--help lists the keys that can be set")));
  }
  if (!seen.insert(key).second) throw Failure(Exit::usage, fmt::format("{} is given twice; remove one of them", key));
  Json& row = keys.at(key);
  if (!row.at("run_time").get<bool>()) {
    if (same_value(row, value)) return;
    throw Failure(Exit::usage, fmt::format("{0} is compiled in: this trainer was built with {0}={1}, not {2}; run "
                                           "`llmc compile` with {0}={2} for a trainer with that value",
                                           key, shown(row.at("value")), value));
  }
  const std::optional<Json> parsed = parse_value(row, value);
  if (!parsed) throw Failure(Exit::usage, fmt::format("{} cannot be '{}'; write {}", key, value, expectation(row)));
  row["value"] = *parsed;
  if (row.value("path", false) && !value.empty())
    row["value"] = std::filesystem::absolute(value).lexically_normal().string();
}

void resolve_path(Json& row, const std::filesystem::path& base) {
  const std::string path = row.at("value").is_string() ? row["value"].get<std::string>() : "";
  if (!path.empty()) row["value"] = (base / path).lexically_normal().string();
}

ScheduleKind schedule_kind(const std::string& word) {
  if (word == "constant") return ScheduleKind::constant;
  if (word == "linear") return ScheduleKind::linear;
  if (word == "wsd") return ScheduleKind::wsd;
  return ScheduleKind::cosine;
}

RunValues bind(Keys& keys) {
  const auto integer = [&](const char* key) { return keys.at(key).at("value").get<std::int64_t>(); };
  const auto number = [&](const char* key) { return keys.at(key).at("value").get<double>(); };
  const auto text = [&](const char* key) { return keys.at(key).at("value").get<std::string>(); };
  RunValues values;
  const auto betas = keys.at("optimizer.betas").at("value").get<std::vector<double>>();
  values.optimizer = {
      number("optimizer.lr"),       betas.at(0), betas.at(1), number("optimizer.eps"), number("optimizer.weight_decay"),
      number("optimizer.clip_norm"), text("optimizer.decay") == "all"};
  values.schedule = {schedule_kind(text("schedule.kind")), integer("schedule.steps"), integer("schedule.warmup_steps"),
                     number("schedule.min_lr_ratio"), number("schedule.decay_fraction")};
  values.data = {text("data.tokenizer"),         text("data.train.path"),
                 text("data.train.format"),      text("data.validation.path"),
                 text("data.validation.format"), static_cast<std::uint64_t>(integer("data.seed"))};
  values.batch_tokens = integer("batch.tokens");
  values.evaluation = {integer("evaluation.every"), integer("evaluation.sequences")};
  values.sampling = {integer("sampling.every"), keys.at("sampling.prompts").at("value").get<std::vector<std::string>>(),
                     integer("sampling.tokens"), number("sampling.temperature")};
  values.checkpoint = {integer("checkpoint.every"), integer("checkpoint.keep_last"), integer("checkpoint.keep_every")};
  values.metrics = {integer("metrics.every"), keys.at("metrics.per_parameter").at("value").get<bool>()};
  values.seed = static_cast<std::uint64_t>(integer("seed"));
  return values;
}

void check_relations(const RunValues& values, std::int64_t sequence_length, std::int64_t micro_batch) {
  const auto refuse = [](const std::string& what) { throw Failure(Exit::spec, what); };
  const std::int64_t pass = sequence_length * micro_batch;
  if (values.batch_tokens % pass != 0)
    refuse(fmt::format(
        "batch.tokens {} is not a multiple of micro_batch * sequence_length = {} * {}; write batch.tokens={}",
        values.batch_tokens, micro_batch, sequence_length,
        std::max<std::int64_t>(values.batch_tokens / pass, 1) * pass));
  const Schedule& schedule = values.schedule;
  if (schedule.warmup_steps >= schedule.steps)
    refuse(fmt::format("schedule.warmup_steps {} leaves nothing of {} steps; write schedule.warmup_steps={} or less",
                       schedule.warmup_steps, schedule.steps, schedule.steps / 10));
  const double steps = static_cast<double>(schedule.steps);
  if (schedule.kind == ScheduleKind::wsd &&
      static_cast<double>(schedule.warmup_steps) + schedule.decay_fraction * steps > steps)
    refuse(fmt::format(
        "schedule.warmup_steps {} and schedule.decay_fraction {} do not fit into {} steps; make one of them smaller",
        schedule.warmup_steps, schedule.decay_fraction, schedule.steps));
  const RunValues::Checkpoint& checkpoint = values.checkpoint;
  if (checkpoint.keep_every > 0 && (checkpoint.every == 0 || checkpoint.keep_every % checkpoint.every != 0))
    refuse(fmt::format("checkpoint.keep_every {} is not a multiple of checkpoint.every {}; write such a multiple, or 0",
                       checkpoint.keep_every, checkpoint.every));
}

}  // namespace

RunValues resolve_run_values(const char* keys_json, std::span<const std::string> overrides,
                             const std::filesystem::path& base, std::int64_t sequence_length,
                             std::int64_t micro_batch) {
  Keys keys(keys_json);
  std::set<std::string> seen;
  for (const std::string& text : overrides) apply_override(keys, text, seen);
  for (const auto& [name, row] : keys.rows())
    if (row.value("path", false) && !seen.count(name)) resolve_path(keys.at(name), base);
  const RunValues values = bind(keys);
  check_relations(values, sequence_length, micro_batch);
  return values;
}

std::string list_run_time_keys(const char* keys_json) {
  const Keys keys(keys_json);
  std::string text;
  for (const auto& [name, row] : keys.rows())
    if (row.at("run_time").get<bool>()) text += fmt::format("  {}={}\n", name, shown(row.at("value")));
  return text;
}

}  // namespace llmc
