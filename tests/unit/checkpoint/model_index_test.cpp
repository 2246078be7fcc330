// Reading model.safetensors.index.json, and refusing invalid ones.
#include "checkpoint/model_index.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

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
    EXPECT_EQ(problem(std::string(R"({"weight_map": {"a": ")") + file + "\"}}"),
              "weight_map names a file in another folder")
        << file;
}

TEST(ModelIndex, RefusesOtherShapes) {
  EXPECT_EQ(problem("[]"), "it is not an object");
  EXPECT_EQ(problem("7"), "it is not an object");
  EXPECT_EQ(problem("{}"), "it has no weight_map");
  EXPECT_EQ(problem(R"({"metadata": {"weight_map": {"a": "x"}}})"), "it has no weight_map");
  EXPECT_EQ(problem(R"({"weight_map": ["a"]})"), "weight_map is not an object");
  EXPECT_EQ(problem(R"({"weight_map": null})"), "weight_map is not an object");
  EXPECT_EQ(problem(R"({"weight_map": {}})"), "its weight_map names no tensor");
  for (const char* file : {"1", "null", "{}", "[]", "true"})
    EXPECT_EQ(problem(std::string(R"({"weight_map": {"a": )") + file + "}}"),
              "a tensor's file in weight_map is not text")
        << file;
  EXPECT_EQ(problem(R"({"weight_map": {"a": "x", "a": "y"}})"), "it has a key twice");
  EXPECT_EQ(problem(R"({"weight_map": {"a": "x"}, "weight_map": {"b": "y"}})"), "it has a key twice");
  EXPECT_EQ(problem(R"({"weight_map": {"a": "x"})"), "it is not valid JSON at byte 26");
  EXPECT_EQ(problem(R"({"x": )" + std::string(9, '[') + std::string(9, ']') + "}"), "it is nested too deeply");
  EXPECT_EQ(problem(R"({"weight_map": {")" + std::string(1025, 'a') + R"(": "x"}})"), "a key is too long");
}

}  // namespace
}  // namespace llmc
