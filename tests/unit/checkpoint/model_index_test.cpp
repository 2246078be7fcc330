// Reading model.safetensors.index.json, and refusing invalid ones.
#include "checkpoint/model_index.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "../facts.h"
#include "checkpoint/shards.h"

namespace llmc {
namespace {

std::string problem(const std::string& json) {
  try {
    parse_model_index(json);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(ModelIndex, ReadsWhatIsWritten) {
  const std::map<std::string, std::string> files = {{"a", "model-00001-of-00002.safetensors"},
                                                    {"b", "model-00002-of-00002.safetensors"}};
  EXPECT_EQ(parse_model_index(model_index(files, 12)), files);
  EXPECT_EQ(parse_model_index(R"({"weight_map": {"a": "x"}, "metadata": {"of": [1, {"b": [null, true, -1, 0.5]}]}})"),
            (std::map<std::string, std::string>{{"a", "x"}}));
}

TEST(ModelIndex, RefusesFilesElsewhere) {
  for (const char* file : {"../x", "/etc/passwd", "a/b", "", ".", "..", "a\\u0000b"})
    EXPECT_TRUE(test::has_facts(problem(std::string(R"({"weight_map": {"a": ")") + file + "\"}}"),
                                {"weight_map", "another folder"}))
        << file;
}

TEST(ModelIndex, RefusesOtherShapes) {
  EXPECT_TRUE(test::has_facts(problem("[]"), {"it is not", "object"}));
  EXPECT_TRUE(test::has_facts(problem("7"), {"it is not", "object"}));
  EXPECT_TRUE(test::has_facts(problem("{}"), {"no weight_map"}));
  EXPECT_TRUE(test::has_facts(problem(R"({"metadata": {"weight_map": {"a": "x"}}})"), {"no weight_map"}));
  EXPECT_TRUE(test::has_facts(problem(R"({"weight_map": ["a"]})"), {"weight_map", "not an object"}));
  EXPECT_TRUE(test::has_facts(problem(R"({"weight_map": null})"), {"weight_map", "not an object"}));
  EXPECT_TRUE(test::has_facts(problem(R"({"weight_map": {}})"), {"weight_map", "no tensor"}));
  for (const char* file : {"1", "null", "{}", "[]", "true"})
    EXPECT_TRUE(test::has_facts(problem(std::string(R"({"weight_map": {"a": )") + file + "}}"),
                                {"file in weight_map", "not text"}))
        << file;
  EXPECT_TRUE(test::has_facts(problem(R"({"weight_map": {"a": "x", "a": "y"}})"), {"key twice"}));
  EXPECT_TRUE(test::has_facts(problem(R"({"weight_map": {"a": "x"}, "weight_map": {"b": "y"}})"), {"key twice"}));
  EXPECT_TRUE(test::has_facts(problem(R"({"weight_map": {"a": "x"})"), {"JSON at byte 26"}));
  EXPECT_TRUE(
      test::has_facts(problem(R"({"x": )" + std::string(9, '[') + std::string(9, ']') + "}"), {"nested too deeply"}));
  EXPECT_TRUE(
      test::has_facts(problem(R"({"weight_map": {")" + std::string(1025, 'a') + R"(": "x"}})"), {"key", "too long"}));
}

}  // namespace
}  // namespace llmc
