#include "compiler/spec/documentation.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "compiler/spec/yaml_reader.h"
#include "good_spec.h"
#include "spec/print.h"
#include "spec/scalars.h"
#include "spec/schema/schema.h"

namespace llmc::spec {
namespace {

using Json = nlohmann::ordered_json;

/// Returns whether one of the schema's key patterns matches.
bool matches_one(const Json& schema, const std::string& key) {
  const Json patterns = schema.value("patternProperties", Json::object());
  return std::ranges::any_of(patterns.items(),
                             [&](const auto& entry) { return std::regex_search(key, std::regex(entry.key())); });
}

/// Implements the draft-07 keywords that the schema uses; any other keyword fails the test.
bool valid(const Json& schema, const Json& value) {
  for (const auto& [word, rule] : schema.items()) {
    bool good = true;
    if (word == "type") {
      const std::string type = rule;
      good = type == "object"    ? value.is_object()
             : type == "array"   ? value.is_array()
             : type == "string"  ? value.is_string()
             : type == "boolean" ? value.is_boolean()
             : type == "integer" ? value.is_number_integer()
             : type == "number"  ? value.is_number()
                                 : false;
    } else if (word == "enum") {
      good = std::find(rule.begin(), rule.end(), value) != rule.end();
    } else if (word == "minimum") {
      good = !value.is_number() || value >= rule;
    } else if (word == "maximum") {
      good = !value.is_number() || value <= rule;
    } else if (word == "exclusiveMinimum") {
      good = !value.is_number() || value > rule;
    } else if (word == "pattern") {
      good = !value.is_string() || std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>()));
    } else if (word == "minLength") {
      good = !value.is_string() || value.get<std::string>().size() >= rule;
    } else if (word == "maxLength") {
      good = !value.is_string() || value.get<std::string>().size() <= rule;
    } else if (word == "minItems") {
      good = !value.is_array() || value.size() >= rule;
    } else if (word == "maxItems") {
      good = !value.is_array() || value.size() <= rule;
    } else if (word == "uniqueItems") {
      for (std::size_t i = 0; value.is_array() && i < value.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) good = good && value[i] != value[j];
    } else if (word == "items") {
      if (value.is_array())
        for (const Json& item : value) good = good && valid(rule, item);
    } else if (word == "required") {
      if (value.is_object())
        for (const Json& key : rule) good = good && value.contains(key.get<std::string>());
    } else if (word == "properties") {
      if (value.is_object())
        for (const auto& [key, inner] : rule.items()) good = good && (!value.contains(key) || valid(inner, value[key]));
    } else if (word == "additionalProperties") {
      if (value.is_object())
        for (const auto& [key, unused] : value.items())
          good = good && (schema["properties"].contains(key) || matches_one(schema, key));
    } else if (word == "patternProperties") {
      if (value.is_object())
        for (const auto& [pattern, inner] : rule.items())
          for (const auto& [key, item] : value.items())
            good = good && (!std::regex_search(key, std::regex(pattern)) || valid(inner, item));
    } else if (word == "minProperties") {
      good = !value.is_object() || value.size() >= rule.get<std::size_t>();
    } else if (word == "anyOf") {
      good = std::any_of(rule.begin(), rule.end(), [&](const Json& choice) { return valid(choice, value); });
    } else if (word == "not") {
      good = !valid(rule, value);
    } else if (word == "if") {
      good = !valid(rule, value) || valid(schema["then"], value);
    } else if (word != "then" && word != "description" && word != "title" && word != "$schema") {
      ADD_FAILURE() << "the validator does not know " << word;
    }
    if (!good) return false;
  }
  return true;
}

/// JSON that a YAML 1.2 reader with the core schema makes of a node.
Json as_json(const Node& node) {
  if (node.kind == Node::Kind::list) {
    Json list = Json::array();
    for (const Node& item : node.items) list.push_back(as_json(item));
    return list;
  }
  if (node.kind == Node::Kind::map) {
    Json map = Json::object();
    for (const auto& [key, value] : node.members) map[key.text] = as_json(value);
    return map;
  }
  if (node.kind == Node::Kind::null) return nullptr;
  if (node.plain && (node.text == "true" || node.text == "false")) return node.text == "true";
  static const std::regex integer("-?[0-9]+"), real("-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?");
  if (node.plain && std::regex_match(node.text, integer) && node.text.size() < 18) return std::stoll(node.text);
  if (node.plain && std::regex_match(node.text, real)) return std::stod(node.text);
  return node.text;
}

bool schema_accepts(const std::string& yaml) {
  static const Json schema = Json::parse(json_schema());
  const Source source{"a.yaml", yaml};
  std::vector<Diagnostic> diagnostics;
  const auto root = read_yaml(source, diagnostics);
  EXPECT_TRUE(root && diagnostics.empty());
  return valid(schema, as_json(*root));
}

std::string shipped(const std::string& name) {
  std::ifstream file(std::string(SPECS_FOLDER "/") + name + ".yaml");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(JsonSchema, AcceptsWhatLlmcAccepts) {
  EXPECT_TRUE(schema_accepts(kGood));
  EXPECT_TRUE(schema_accepts(sample_spec("a", {.folder = "data/a", .command = "llmc"})));
  for (const char* name : {"quickstart", "llama-1b", "tiny"}) EXPECT_TRUE(schema_accepts(shipped(name))) << name;
  EXPECT_TRUE(schema_accepts("extends: base.yaml\nseed: 1\n"));
  const std::vector<std::string> overrides = {"model.rope_scaling={type: llama3}", "memory.recompute={every: 2}",
                                              "schedule.kind=wsd", "target={kind: cuda, arch: [80, 90a]}",
                                              "data.validation.path=v"};
  EXPECT_TRUE(schema_accepts(to_yaml(resolve(kGood, overrides), true)));
  EXPECT_TRUE(schema_accepts(to_yaml(resolve(kGood, {"data.validation={web: w, path: v}"}), true)));
  EXPECT_TRUE(schema_accepts(to_yaml(resolve(kGood, {"data.validation={web: {path: w, format: llmc}}"}), true)));
}

TEST(JsonSchema, RefusesWhatLlmcRefuses) {
  const std::string good = kGood;
  for (const char* more : {"sed: 1\n",
                           "seed: x\n",
                           "optimizer: {lr: -1}\n",
                           "optimizer: {betas: [0.9]}\n",
                           "optimizer: {betas: [0.9, 1.0]}\n",
                           "precision: {compute: fp8}\n",
                           "memory: {recompute: some}\n",
                           "memory: {recompute: []}\n",
                           "memory: {budget: h100}\n",
                           "model: {}\n",
                           "target: {arch: [\"-o x\"]}\n",
                           "deterministic: 1\n",
                           "optimizer: {eps: 0}\n",
                           "name: A\n",
                           "data: {train: []}\n",
                           "data: {train: [{path: a}, {path: b}]}\n",
                           "sampling: {prompts: x}\n",
                           "data: {validation: {a b: x}}\n",
                           "data: {validation: {none: x}}\n",
                           "data: {validation: {web: [x]}}\n",
                           "data: {validation: {path: x}}\n",
                           "data: {train: {path: x, format: llmc}}\n",
                           "data: {validation: {web: {}}}\n",
                           "data: {validation: {web: {format: llmc}}}\n",
                           "data: {validation: {web: {path: x, weight: 1}}}\n",
                           "data: {validation: [{web: x}]}\n"}) {
    const std::string text = std::string(more).compare(0, 5, "model") == 0 ||
                                     std::string(more).compare(0, 4, "name") == 0 ||
                                     std::string(more).compare(0, 4, "data") == 0
                                 ? "extends: a.yaml\n" + std::string(more)
                                 : good + more;
    const bool only_missing = std::string(more) == "model: {}\n";
    EXPECT_EQ(schema_accepts(text), only_missing) << more;
  }
  EXPECT_FALSE(schema_accepts("name: a\n"));
  EXPECT_FALSE(schema_accepts(good.substr(0, good.find("data:"))));
}

TEST(JsonSchema, EveryKeyIsThereWithItsSentence) {
  const std::string text = json_schema();
  for (const Key& key : keys()) {
    EXPECT_FALSE(key.doc.empty()) << key.path;
    std::string sentence = Json(key.doc).dump();
    sentence.pop_back();  // the closing quote: the unit may follow
    EXPECT_NE(text.find(sentence), std::string::npos) << key.path;
  }
}

TEST(Table, IsComplete) {
  for (const Key& key : keys()) {
    EXPECT_TRUE(key.get && key.set) << key.path;
    EXPECT_TRUE(key.group().empty() || find_group(key.group())) << key.path;
    EXPECT_EQ(key.derive && (key.fallback.empty() || !key.follows.empty()), !key.derivation.empty()) << key.path;
    EXPECT_EQ(key.when_key.empty(), key.when_value.empty()) << key.path;
    if (!key.when_key.empty()) {
      EXPECT_TRUE(find_key(key.when_key) || find_group(key.when_key)) << key.path;
    }
    // Exactly one source of a default, or none if the key is required or its absence has a meaning.
    const bool absent = key.path == "data.tokenizer" || key.path == "data.validation.path" || key.path == "init.from" ||
                        key.path == "checkpoint.mirror" || key.path == "target.device" ||
                        key.path == "model.sliding_window" || key.path == "model.no_rope_layers" ||
                        key.path == "model.rope_local_theta" || key.path == "model.attn_logit_softcapping" ||
                        key.path == "model.final_logit_softcapping" || key.path == "schedule.tokens" ||
                        key.path == "guards.plateau" || key.has_entries();
    EXPECT_EQ((key.required ? 1 : 0) + (key.derive || !key.fallback.empty() ? 1 : 0) + (absent ? 1 : 0), 1) << key.path;
  }
}

TEST(Reference, NamesEveryKey) {
  const std::string text = reference_markdown();
  for (const Key& key : keys()) EXPECT_NE(text.find("| `" + key.path + "` |"), std::string::npos) << key.path;
  EXPECT_NE(text.find("| `data.validation.NAME.format` | `auto`, `llmc`"), std::string::npos);
}

TEST(Sample, IsValidAndCommented) {
  const std::string text = sample_spec("mine", {.folder = "../my data: #1/mine", .command = "llmc data build"});
  const Spec spec = resolve(text).spec;
  EXPECT_EQ(spec.name, "mine");
  EXPECT_EQ(spec.data.tokenizer, "../my data: #1/mine/tokenizer.model");
  EXPECT_EQ(spec.data.train.path, "../my data: #1/mine/train-*.bin");
  EXPECT_EQ(spec.data.validation.path, "../my data: #1/mine/val-*.bin");
  EXPECT_NE(text.find("# llmc data build\n"), std::string::npos);
  EXPECT_GT(std::count(text.begin(), text.end(), '#'), 15);
}

}  // namespace
}  // namespace llmc::spec
