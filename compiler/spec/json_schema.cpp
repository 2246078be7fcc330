#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compiler/spec/documentation.h"
#include "spec/schema/schema.h"
#include "spec/targets.h"

namespace llmc::spec {
namespace {

using Json = nlohmann::ordered_json;

Json bounded(const Key& key, const char* type) {
  Json schema = {{"type", type}};
  const auto number = [&](double bound) -> Json {
    if (key.type == Type::integer || key.type == Type::bytes) return static_cast<std::int64_t>(bound);
    return bound;
  };
  if (key.minimum) schema[key.exclusive_minimum ? "exclusiveMinimum" : "minimum"] = number(*key.minimum);
  if (key.maximum) schema["maximum"] = number(*key.maximum);
  return schema;
}

Json strings_of(const std::vector<std::string>& words) {
  Json item = {{"type", "string"}};
  if (!words.empty()) item = {{"enum", words}};
  Json list = {{"type", "array"}, {"items", item}};
  if (!words.empty()) list["minItems"] = 1;
  return list;
}

Json arch_schema() {
  // A plain 100 is an integer to YAML, and text to llmc.
  std::vector<std::string> names = cpu_architectures();
  Json any = Json::array();
  Json numbers = Json::array();
  for (const std::string& name : cuda_architectures()) {
    names.push_back(name);
    if (name.find('a') == std::string::npos) numbers.push_back(std::stoi(name));
  }
  const Json one = {{"anyOf", Json::array({{{"enum", names}}, {{"enum", numbers}}})}};
  any.push_back(one);
  any.push_back({{"type", "array"}, {"items", one}, {"minItems", 1}});
  return {{"anyOf", any}};
}

Json entry_schema(const Key& row);

Json type_schema(const Key& key) {
  switch (key.type) {
    case Type::integer: {
      // `_` and suffixes make YAML read a number as text.
      Json any =
          Json::array({bounded(key, "integer"), {{"type", "string"}, {"pattern", "^-?[0-9][0-9_]*([KMG]i?)?$"}}});
      if (!key.words.empty()) any.push_back({{"enum", key.words}});
      if (key.or_times)
        any.push_back({{"type", "string"}, {"pattern", "^[0-9][0-9_]*(\\.[0-9_]+)?([eE][-+]?[0-9]+)?x$"}});
      return {{"anyOf", any}};
    }
    case Type::bytes: {
      Json any = Json::array({bounded(key, "integer"),
                              {{"type", "string"}, {"pattern", "^[0-9][0-9_]*([KMGT]i?)?B?$"}},
                              {{"enum", key.words}}});
      return {{"anyOf", any}};
    }
    case Type::number: {
      // JSON parsers of YAML 1.1 read 3e-4 as text.
      Json any = Json::array({bounded(key, "number"),
                              {{"type", "string"}, {"pattern", "^-?[0-9][0-9_]*(\\.[0-9_]+)?([eE][-+]?[0-9]+)?$"}}});
      if (!key.words.empty()) any.push_back({{"enum", key.words}});
      return {{"anyOf", any}};
    }
    case Type::boolean: return {{"type", "boolean"}};
    case Type::choice: return {{"enum", key.words}};
    case Type::list: return {{"type", "array"}, {"items", entry_schema(key)}};
    case Type::map: return entry_schema(key);  // of each name
    case Type::string:
      if (key.path == "name") return {{"type", "string"}, {"pattern", "^[a-z][a-z0-9-]{0,63}$"}};
      return {{"type", "string"}, {"minLength", 1}, {"maxLength", 4096}};
    case Type::numbers:
      return {{"type", "array"}, {"items", bounded(key, "number")}, {"minItems", key.count}, {"maxItems", key.count}};
    case Type::strings: {
      if (key.or_single) return arch_schema();
      Json list = strings_of(key.words);
      if (key.fallback == "[]") list.erase("minItems");
      return list;
    }
    case Type::layers: {
      const Json layer = {{"type", "integer"}, {"minimum", 0}};
      return {{"anyOf", Json::array({{{"enum", key.words}},
                                     {{"type", "integer"}, {"minimum", 1}},
                                     {{"type", "array"}, {"items", layer}, {"minItems", 1}, {"uniqueItems", true}}})}};
    }
    case Type::recompute: {
      Json list = strings_of(key.words);
      list["uniqueItems"] = true;
      const Json every = {{"type", "object"},
                          {"properties", {{"every", {{"type", "integer"}, {"minimum", 1}}}}},
                          {"required", {"every"}},
                          {"additionalProperties", false}};
      const Json what = {{"anyOf", Json::array({{{"enum", {"none", "full"}}}, list})}};
      const Json layers = {{"type", "object"},
                           {"properties",
                            {{"layers",
                              {{"type", "object"},
                               {"patternProperties", {{"^[0-9]+(-[0-9]+)?$", what}}},
                               {"minProperties", 1},
                               {"additionalProperties", false}}}}},
                           {"required", {"layers"}},
                           {"additionalProperties", false}};
      return {{"anyOf", Json::array({{{"enum", {"auto", "none", "full"}}}, every, layers, list})}};
    }
  }
  return {};
}

Json described(const Key& key) {
  Json schema = type_schema(key);
  schema["description"] = key.doc + (key.unit.empty() ? "" : " In " + key.unit + ".");
  return schema;
}

/// Schema of one entry of a list or map.
Json entry_schema(const Key& row) {
  Json properties = Json::object(), required = Json::array();
  for (const Key& member : row.members) {
    const bool shorthand = member.leaf() == row.shorthand;
    properties[member.leaf()] = shorthand ? type_schema(member) : described(member);
    if (member.required || shorthand) required.push_back(member.leaf());
  }
  Json map = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}, {"minProperties", 1}};
  if (!required.empty()) map["required"] = required;
  if (row.shorthand.empty()) return map;
  return {{"anyOf", Json::array({type_schema(*row.member(row.shorthand)), map})}};
}

std::string name_pattern(const Key& row) {
  std::string reserved;
  for (const std::string& word : row.reserved) reserved += (reserved.empty() ? "" : "|") + word;
  return fmt::format("^{}[A-Za-z][A-Za-z0-9_-]{{0,{}}}$", reserved.empty() ? "" : fmt::format("(?!({})$)", reserved),
                     kLongestEntryName - 1);
}

Json object_schema(const Schema& schema, const std::string& group);

Json group_schema(const Schema& table, const KeyGroup& group) {
  Json schema = object_schema(table, group.path);
  if (!group.shorthand.empty())
    schema = {{"anyOf", Json::array({type_schema(*table.find_key(group.path + "." + group.shorthand)), schema})}};
  const Json keys_alone = schema;
  if (group.list_of_one) schema = {{"type", "array"}, {"items", schema}, {"minItems", 1}, {"maxItems", 1}};
  if (const Key* names = table.names_in(group.path)) {
    Json map = keys_alone;
    map["patternProperties"] = {{name_pattern(*names), described(*names)}};
    if (group.list_of_one) {  // a map without a name is refused, because the keys of one source stand in a list
      Json unnamed = Json::object();
      for (const auto& [leaf, unused] : map["properties"].items()) unnamed[leaf] = Json::object();
      map["not"] = {{"properties", unnamed}, {"additionalProperties", false}};
    }
    schema = group.list_of_one ? Json{{"anyOf", Json::array({schema, map})}} : map;
  }
  schema["description"] = group.doc;
  return schema;
}

Json object_schema(const Schema& table, const std::string& path) {
  Json properties = Json::object();
  const auto leaf_of = [&](const std::string& child) -> std::string {
    const std::string prefix = path.empty() ? "" : path + ".";
    if (child.compare(0, prefix.size(), prefix) != 0) return {};
    const std::string leaf = child.substr(prefix.size());
    return leaf.find('.') == std::string::npos ? leaf : std::string();
  };
  if (path.empty()) {
    properties["extends"] = {{"type", "string"},
                             {"description", "A spec, relative to this file, whose keys these replace."}};
    properties["phases"] = {
        {"type", "array"},
        {"description", "Partial specs over this one, one after the other, each up to its step `until`."},
        {"minItems", 2},
        {"items",
         {{"type", "object"},
          {"required", {"until"}},
          {"properties", {{"until", {{"type", {"string", "integer"}}}}}}}}};
  }
  for (const Key& key : table.keys()) {
    // Groups come where their first key comes.
    for (const KeyGroup& group : table.groups())
      if (const std::string leaf = leaf_of(group.path);
          !leaf.empty() && !properties.contains(leaf) &&
          key.path.compare(0, group.path.size() + 1, group.path + ".") == 0)
        properties[leaf] = group_schema(table, group);
    const std::string leaf = leaf_of(key.path);
    if (leaf.empty() || key.type == Type::map) continue;
    properties[leaf] = described(key);
  }
  return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
}

/// Keys that a file must have unless it extends another: {"required": [...], "properties": {...}}.
Json required_schema() {
  Json model = Json::array();
  for (const Key& key : keys())
    if (key.required && key.group() == "model") model.push_back(key.leaf());
  return {{"required", {"name", "model", "data"}},
          {"properties",
           {{"model", {{"required", model}}},
            {"data", {{"required", {"train"}}, {"properties", {{"train", {{"items", {{"required", {"path"}}}}}}}}}}}}};
}

}  // namespace

std::string json_schema(const Schema& table) {
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                 {"title", "llmc spec"},
                 {"description", "One model and one training run."}};
  schema.update(object_schema(table, ""));
  schema["if"] = {{"not", {{"required", {"extends"}}}}};
  schema["then"] = required_schema();
  return schema.dump(2) + "\n";
}

}  // namespace llmc::spec
