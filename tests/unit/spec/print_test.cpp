#include "spec/print.h"

#include <nlohmann/json.hpp>
#include <random>

#include "good_spec.h"
#include "spec/fingerprint.h"
#include "spec/schema/schema.h"

namespace llmc::spec {
namespace {

void expect_round_trip(const Resolved& first) {
  for (bool origins : {false, true}) {
    const std::string text = to_yaml(first, origins);
    const Resolved second = resolve(text);
    EXPECT_EQ(all_values(second.spec), all_values(first.spec)) << text;
    EXPECT_EQ(fingerprint(second.spec), fingerprint(first.spec));
    EXPECT_EQ(to_yaml(second, false), to_yaml(first, false));
  }
}

TEST(ToYaml, RoundTrip) {
  expect_round_trip(resolve(kGood));
  expect_round_trip(
      resolve(kGood, {"model.rope_scaling={type: llama3, factor: 8.5}", "memory.recompute={every: 3}",
                      "schedule.kind=wsd", "data.validation=[{path: \"v *.bin\", format: llmc}]", "evaluation.every=3",
                      "target={kind: cuda, arch: [80, 90a]}", "init.residual=0.125", "memory.loss_chunk=2048",
                      "batch.micro_batch=8", "optimizer.lr=1.2345678901234567e-5", "memory.budget=123456789",
                      "data.tokenizer=true", "seed=9223372036854775807"}));
}

TEST(ToYaml, RoundTripOfHostileTexts) {
  std::mt19937 random(3);
  const std::vector<std::string> pieces = {"\"", "\\", "'", "\n", "\t", "#", " #", ": ", "- ", "é", "日",   "{", "}",
                                           "[",  "]",  ",", "&",  "*",  "!", "%",  "@",  "`",  " ", "null", "~", "0"};
  for (int i = 0; i < 300; ++i) {
    Resolved resolved = resolve(kGood);
    std::string text;
    for (std::size_t n = 1 + random() % 8; n > 0; --n) text += pieces[random() % pieces.size()];
    resolved.spec.data.tokenizer = "t.model";  // without one, prompts are token ids
    resolved.spec.sampling.prompts = {text, "x"};
    expect_round_trip(resolved);
  }
}

TEST(ToYaml, NamesOrigins) {
  const std::string text = to_yaml(resolve(kGood, {"seed=5"}), true);
  EXPECT_NE(text.find("  vocab_size: 4096"), std::string::npos);
  EXPECT_NE(text.find("# good.yaml:3\n"), std::string::npos);
  EXPECT_NE(text.find("# override\n"), std::string::npos);
  EXPECT_NE(text.find("# default: hidden_size / num_attention_heads\n"), std::string::npos);
  EXPECT_NE(text.find("  rope_scaling: none"), std::string::npos);
  EXPECT_EQ(text.find("low_freq_factor"), std::string::npos);
}

TEST(KeysJson, TakesAFolderOfAnyName) {
  Resolved resolved = resolve(kGood);
  resolved.spec.data.tokenizer = "/a\xff/tokenizer.model";
  EXPECT_NE(keys_json(resolved).find("/a\xef\xbf\xbd/tokenizer.model"), std::string::npos);
}

TEST(KeysJson, EveryKeyWithItsValue) {
  const auto list = nlohmann::json::parse(keys_json(resolve(kGood)));
  ASSERT_EQ(list.size(), keys().size());
  std::map<std::string, nlohmann::json> by_key;
  for (const auto& entry : list) by_key[entry["key"]] = entry;
  EXPECT_EQ(by_key["optimizer.lr"]["value"], 0.0003);
  EXPECT_EQ(by_key["optimizer.lr"]["run_time"], true);
  EXPECT_EQ(by_key["model.rope_theta"]["exclusive_min"], true);
  EXPECT_EQ(by_key["optimizer.betas"]["type"], "numbers");
  EXPECT_EQ(by_key["optimizer.betas"]["count"], 2);
  EXPECT_EQ(by_key["model.hidden_size"]["run_time"], false);
  EXPECT_EQ(by_key["model.hidden_size"]["value"], 256);
  EXPECT_EQ(by_key["batch.micro_batch"]["value"], "auto");
  EXPECT_EQ(by_key["batch.tokens"]["run_time"], true);
  EXPECT_EQ(by_key["data.train.path"]["path"], true);
  EXPECT_EQ(by_key["data.train.format"]["choices"].size(), 5u);
  EXPECT_EQ(by_key["sampling.prompts"]["type"], "strings");
  EXPECT_EQ(by_key["memory.budget"]["type"], "bytes");
  EXPECT_EQ(by_key["schedule.kind"]["type"], "choice");
  EXPECT_EQ(by_key["metrics.per_parameter"]["run_time"], false);
}

}  // namespace
}  // namespace llmc::spec
