// Reads the keys of one object of a config.json, and collects what llmc cannot train.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "spec/model_config.h"

namespace llmc::spec {

/// Text of a value for a message, cut to 60 bytes.
std::string shown(const nlohmann::ordered_json& value);

/// Reads the keys of one object; keys that were never read are refused at the end.
class ConfigReader {
 public:
  using Json = nlohmann::ordered_json;

  /// `prefix`: of the object's keys in messages, with its dot; empty for the file.
  ConfigReader(const Json& object, std::string prefix, Refusals& refusals);

  /// Refuses this key, or with an empty one the object, with a reason.
  void refuse(const std::string& key, const std::string& why);
  Refusals& refusals() { return refusals_; }

  /// Null counts as absent.
  const Json* find(const std::string& key);
  bool has(const std::string& key) const { return object_.contains(key); }
  std::optional<std::int64_t> integer(const std::string& key);
  std::int64_t required(const std::string& key);
  std::optional<double> number(const std::string& key);
  /// The fallback is that of an absent key; null is false, as in transformers.
  bool boolean(const std::string& key, bool fallback);
  std::optional<std::string> text(const std::string& key);

  void refuse_the_rest(const std::set<std::string>& harmless);

 private:
  const Json& object_;
  std::string prefix_;
  Refusals& refusals_;
  std::set<std::string> seen_;
};

/// Two sources of one value: equal, or an error naming both.
template <typename T>
std::optional<T> agree(Refusals& refusals, const std::string& a_key, std::optional<T> a, const std::string& b_key,
                       std::optional<T> b) {
  if (a && b && *a != *b)
    refusals.add(a_key, fmt::format("it is {}, but {} is {}. Remove the wrong one", *a, b_key, *b));
  return a ? a : b;
}

}  // namespace llmc::spec
