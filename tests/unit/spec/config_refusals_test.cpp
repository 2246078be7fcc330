// Refusals of a config.json: one reason each, with a remedy.
#include <fmt/format.h>

#include "../facts.h"
#include "config_texts.h"

namespace llmc::spec {
namespace {

TEST(Refusals, OfAMissingSizeAreNotOfItsFallback) {
  Json config = Json::parse(kLlama32);
  for (const char* key : {"hidden_size", "head_dim", "intermediate_size"}) config.erase(key);
  config["vocab_size"] = 0;
  const std::string all = refusal(config);
  EXPECT_TRUE(test::has_facts(all, {"3 reasons"})) << all;
  for (const char* key : {"hidden_size", "intermediate_size", "vocab_size"})
    EXPECT_NE(all.find(fmt::format("\n  {}: ", key)), std::string::npos) << all;
}

TEST(Refusals, NameTheTypeOfAKnownArchitecture) {
  Json config = Json::parse(kLlama32);
  config.erase("model_type");
  EXPECT_TRUE(test::has_facts(refusal(config), {"model_type: it is missing", "\"llama\"", "LlamaForCausalLM"}));
  config.erase("architectures");
  EXPECT_TRUE(test::has_facts(refusal(config), {"model_type: it is missing", "llama", "olmo3"}));
}

TEST(Refusals, OfAnUnknownTypeAreThatAlone) {
  Json config = changed("/model_type", "gpt_neox");
  config["rotary_pct"] = 0.25, config["hidden_act"] = "gelu";
  const std::string message = refusal(config);
  EXPECT_TRUE(test::has_facts(message, {"config.json: model_type: \"gpt_neox\""}));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(Refusals, OfARopeTypeAreOneReason) {
  const std::string message = refusal(changed("/rope_scaling/rope_type", "longrope"));
  EXPECT_TRUE(test::has_facts(message, {"config.json: rope_scaling.rope_type: \"longrope\"", "llama3"}));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(Refusals, OfAModelInAnotherSayWhereItIs) {
  Json inside = Json::parse(kLlama32);
  inside.erase("architectures");
  Json config = {{"architectures", Json::array({"LlavaForConditionalGeneration"})},
                 {"model_type", "llava"},
                 {"image_token_index", 5},
                 {"vision_config", Json{{"hidden_size", 1024}}},
                 {"text_config", inside}};
  std::string message = refusal(config);
  EXPECT_TRUE(test::has_facts(message, {"config.json: text_config: ", "contents of text_config"}));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  config["text_config"]["model_type"] = "phi";
  message = refusal(config);
  EXPECT_TRUE(test::has_facts(message, {"config.json: text_config.model_type: \"phi\" is not llama"}));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(Refusals, OfMoreLayersThanASpecHasAreOneReason) {
  const std::string message = refusal(changed("/num_hidden_layers", std::int64_t{1} << 53));
  EXPECT_TRUE(test::has_facts(message, {"config.json: num_hidden_layers: 9007199254740992", "1 to 1024"}));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

/// rope_parameters with a part for each type of layers, in a model type with one RoPE.
TEST(FromHuggingFace, OneRopeForAllLayers) {
  Json config = Json::parse(kLlama32);
  config.erase("rope_scaling"), config.erase("rope_theta");
  config["rope_parameters"]["full_attention"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 1e6}};
  EXPECT_EQ(import(config).model.rope_theta, 1e6);
  EXPECT_EQ(import(config).model.rope_scaling.factor, 2);
  config["rope_parameters"]["sliding_attention"] = {{"rope_type", "default"}, {"rope_theta", 1e4}};
  EXPECT_EQ(import(config).model.rope_theta, 1e6) << "no layer slides";
  config["model_type"] = "mistral", config["architectures"] = {"MistralForCausalLM"}, config["sliding_window"] = 512;
  EXPECT_EQ(import(config).model.rope_theta, 1e4) << "all layers slide";
  config["model_type"] = "gemma2", config["architectures"] = {"Gemma2ForCausalLM"}, config.erase("hidden_act");
  EXPECT_TRUE(test::has_facts(refusal(config),
                              {"rope_parameters: full_attention and sliding_attention", "gemma2", "Write its keys"}));
  config["rope_parameters"]["sliding_attention"] = {{"rope_theta", 1e6}, {"factor", 2}, {"rope_type", "linear"}};
  EXPECT_EQ(import(config).model.rope_theta, 1e6);
  config["rope_parameters"]["full_attention"]["factor"] = "2";
  config["rope_parameters"]["sliding_attention"] = config["rope_parameters"]["full_attention"];
  EXPECT_NE(refusal(config).find("rope_parameters.sliding_attention.factor: "), std::string::npos);
}

}  // namespace
}  // namespace llmc::spec
