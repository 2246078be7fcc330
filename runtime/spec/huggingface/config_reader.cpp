#include "spec/huggingface/config_reader.h"

#include <cmath>

#include "spec/source.h"

namespace llmc::spec {
namespace {

using Json = nlohmann::ordered_json;

const Json kEmpty = Json::object();

}  // namespace

std::string shown(const Json& value) {
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60));
}

ConfigReader::ConfigReader(const Json& object, std::string prefix, Refusals& refusals)
    : object_(object.is_object() ? object : kEmpty), prefix_(std::move(prefix)), refusals_(refusals) {
  if (!object.is_object()) refuse("", "it is not an object");
}

void ConfigReader::refuse(const std::string& key, const std::string& why) {
  const std::string group = prefix_.substr(0, prefix_.empty() ? 0 : prefix_.size() - 1);
  refusals_.add(key.empty() ? group.empty() ? "the file" : group : prefix_ + key, why);
}

const Json* ConfigReader::find(const std::string& key) {
  seen_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::int64_t> ConfigReader::integer(const std::string& key) {
  const Json* value = find(key);
  if (!value) return {};
  if (value->is_number_unsigned() && value->get<std::uint64_t>() <= (std::uint64_t{1} << 53))
    return value->get<std::int64_t>();
  if (value->is_number_float() && *value == std::floor(value->get<double>()) && value->get<double>() >= 0 &&
      value->get<double>() < 1e15)
    return static_cast<std::int64_t>(value->get<double>());  // some writers turn integers into 8192.0
  refuse(key, fmt::format("{} is not a whole number", shown(*value)));
  return {};
}

std::int64_t ConfigReader::required(const std::string& key) {
  if (!find(key)) refuse(key, "it is missing, but llmc needs every size");
  return integer(key).value_or(1);
}

std::optional<double> ConfigReader::number(const std::string& key) {
  const Json* value = find(key);
  if (!value) return {};
  if (value->is_number()) return value->get<double>();
  refuse(key, fmt::format("{} is not a number", shown(*value)));
  return {};
}

bool ConfigReader::boolean(const std::string& key, bool fallback) {
  const Json* value = find(key);
  if (value && value->is_boolean()) return value->get<bool>();
  if (value) refuse(key, fmt::format("{} is not true or false", shown(*value)));
  return fallback && (value || !has(key));
}

std::optional<std::string> ConfigReader::text(const std::string& key) {
  const Json* value = find(key);
  if (!value) return {};
  if (value->is_string()) return value->get<std::string>();
  refuse(key, fmt::format("{} is not text", shown(*value)));
  return {};
}

void ConfigReader::refuse_the_rest(const std::set<std::string>& harmless) {
  for (const auto& [key, value] : object_.items()) {
    const bool off = value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
                     ((value.is_array() || value.is_object()) && value.empty());
    if (seen_.count(key) || harmless.count(key) || off) continue;
    refuse(key, fmt::format("llmc does not support {}, so it may not train this model exactly. Remove the key if it "
                            "does not change the forward pass",
                            shown(value)));
  }
}

}  // namespace llmc::spec
