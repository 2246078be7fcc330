#include <fmt/format.h>

#include "../facts.h"
#include "config_texts.h"
#include "error.h"
#include "spec/model_config.h"
#include "spec/schema/schema.h"
#include "spec/values.h"

namespace llmc::spec {
namespace {

TEST(FromHuggingFace, Llama32) {
  const Model m = import(Json::parse(kLlama32)).model;
  EXPECT_EQ(m.vocab_size, 128256);
  EXPECT_EQ(m.hidden_size, 2048);
  EXPECT_EQ(m.num_key_value_heads, 8);
  EXPECT_EQ(m.head_dim, 64);
  EXPECT_EQ(m.rope_theta, 500000);
  EXPECT_EQ(m.rope_scaling.type, RopeType::llama3);
  EXPECT_EQ(m.rope_scaling.factor, 32);
  EXPECT_EQ(m.rope_scaling.original_max_position_embeddings, 8192);
  EXPECT_TRUE(m.tie_word_embeddings);
  EXPECT_EQ(m.rms_norm_eps, 1e-5);
  const std::string text = from_huggingface(kLlama32, "a").text;
  EXPECT_EQ(text.find(" \n"), std::string::npos) << text;
}

TEST(FromHuggingFace, NewerSchema) {
  Json config = Json::parse(kLlama32);
  Json parameters = config["rope_scaling"];
  parameters["rope_theta"] = 250000.0;
  config["rope_parameters"] = parameters;
  config["dtype"] = "bfloat16";
  config.erase("rope_scaling");
  config.erase("rope_theta");
  config.erase("torch_dtype");
  const Model m = import(config).model;
  EXPECT_EQ(m.rope_theta, 250000);
  EXPECT_EQ(m.rope_scaling.type, RopeType::llama3);
}

TEST(FromHuggingFace, DefaultsAreThoseOfTransformers) {
  const Model m = import(Json{{"model_type", "llama"},
                              {"vocab_size", 32000},
                              {"hidden_size", 4096},
                              {"intermediate_size", 11008},
                              {"num_hidden_layers", 32},
                              {"num_attention_heads", 32}})
                      .model;
  EXPECT_EQ(m.num_key_value_heads, 32);
  EXPECT_EQ(m.head_dim, 128);
  EXPECT_EQ(m.rope_theta, 10000);
  EXPECT_EQ(m.rms_norm_eps, 1e-6);
  EXPECT_FALSE(m.tie_word_embeddings);
  EXPECT_EQ(m.rope_scaling.type, RopeType::none);
}

TEST(FromHuggingFace, RefusesWithTheKey) {
  const std::vector<std::pair<const char*, Json>> cases = {
      {"/model_type", "gemma"},
      {"/architectures", Json::array({"LlamaForSequenceClassification"})},
      {"/hidden_act", "gelu"},
      {"/sliding_window", 4096},
      {"/use_sliding_window", true},
      {"/layer_types", Json::array({"full_attention", "sliding_attention"})},
      {"/num_local_experts", 8},
      {"/partial_rotary_factor", 0.5},
      {"/rope_scaling/rope_type", "yarn"},  // which has no low_freq_factor
      {"/rope_scaling/rope_type", "longrope"},
      {"/rope_scaling/type", "linear"},
      {"/rope_scaling/beta_fast", 32},
      {"/quantization_config", Json{{"bits", 4}}},
      {"/logits_scaling", 8.0},
      {"/dtype", "float32"},
      {"/hidden_size", "2048"},
      {"/hidden_size", -1},
      {"/hidden_size", 2048.5},
      {"/vocab_size", Json()},
      {"/rope_parameters", Json{{"rope_type", "default"}, {"rope_theta", 500000.0}}},
      {"/rope_parameters", Json{{"rope_type", "llama3"},
                                {"rope_theta", 10000.0},
                                {"factor", 32.0},
                                {"high_freq_factor", 4.0},
                                {"low_freq_factor", 1.0},
                                {"original_max_position_embeddings", 8192}}},
      {"/rope_parameters", Json{{"full_attention", Json{{"rope_type", "default"}}}}},
      {"/rope_theta", 1},
      {"/num_key_value_heads", 5},
  };
  for (const auto& [pointer, value] : cases) {
    const std::string message = refusal(changed(pointer, value));
    EXPECT_FALSE(message.empty()) << pointer << " " << value;
    std::string key = std::string(pointer).substr(1);
    key = key.substr(0, key.find('/'));
    if (key == "dtype") key = "torch_dtype";
    if (key != "rope_parameters" && key != "num_key_value_heads") {
      EXPECT_NE(message.find(key), std::string::npos) << message;
    }
  }
  EXPECT_NE(refusal(changed("/rope_scaling/factor", Json())).find("rope_scaling.factor"), std::string::npos);
}

TEST(FromHuggingFace, AcceptsWhatChangesNothing) {
  EXPECT_EQ(refusal(changed("/sliding_window", Json())), "");
  Json window_off = changed("/sliding_window", 4096);
  window_off["use_sliding_window"] = false;
  EXPECT_EQ(refusal(window_off), "");
  EXPECT_EQ(refusal(changed("/layer_types", Json::array({"full_attention"}))), "");
  EXPECT_EQ(refusal(changed("/unknown_switch", false)), "");
  EXPECT_EQ(refusal(changed("/transformers.js_config", Json{{"kv_cache_dtype", Json{{"fp16", "float16"}}}})), "");
  EXPECT_EQ(refusal(changed("/attention_bias", true)), "");
}

// HuggingFaceTB/SmolLM2-135M and mistralai/Mistral-7B-v0.3, with all keys as published.
const char* const kSmolLm2 = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 0,
  "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.041666666666666664, "intermediate_size": 1536,
  "is_llama_config": true, "max_position_embeddings": 8192, "model_type": "llama", "num_attention_heads": 9,
  "num_hidden_layers": 30, "num_key_value_heads": 3, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": false,
  "rope_scaling": null, "rope_theta": 100000, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "transformers_version": "4.40.1", "use_cache": true, "vocab_size": 49152
})";
const char* const kMistral = R"({
  "architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
  "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
  "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
  "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "transformers_version": "4.42.0.dev0", "use_cache": true, "vocab_size": 32768
})";

TEST(FromHuggingFace, TakesTheSameMathematics) {
  const Spec smol = import(Json::parse(kSmolLm2));
  EXPECT_EQ(smol.name, "some-model-1b");
  EXPECT_EQ(smol.model.num_key_value_heads, 3);
  EXPECT_EQ(smol.init.embedding_std, 0.041666666666666664);
  EXPECT_EQ(smol.init.linear.kind, InitStd::Kind::value);
  EXPECT_EQ(smol.init.residual.value, 0.041666666666666664);
  EXPECT_EQ(import(Json::parse(kMistral)).model.rope_theta, 1e6);
  Json mistral = Json::parse(kMistral);
  mistral.erase("num_key_value_heads");
  EXPECT_EQ(import(mistral).model.num_key_value_heads, 8);  // MistralConfig's default
  mistral = Json::parse(kMistral);
  mistral["architectures"] = {"LlamaForCausalLM"};
  EXPECT_NE(refusal(mistral).find("architectures"), std::string::npos);
}

// Qwen/Qwen3-0.6B, with all keys as published.
const char* const kQwen3 = R"({
  "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 151643,
  "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02,
  "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
  "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null,
  "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936
})";

TEST(FromHuggingFace, Qwen3HasNormsOfItsHeads) {
  EXPECT_FALSE(import(Json::parse(kLlama32)).model.qk_norm);
  const Model m = import(Json::parse(kQwen3)).model;
  EXPECT_TRUE(m.qk_norm);
  EXPECT_EQ(m.head_dim, 128);
  EXPECT_EQ(m.num_key_value_heads, 8);
  EXPECT_EQ(m.rope_theta, 1e6);
  EXPECT_FALSE(m.attention_bias);

  Json config = Json::parse(kQwen3);
  for (const char* key : {"head_dim", "num_key_value_heads", "use_sliding_window"}) config.erase(key);
  config["num_attention_heads"] = 32, config["sliding_window"] = 4096, config["attention_bias"] = true;
  const Model defaults = import(config).model;  // Qwen3Config's
  EXPECT_EQ(defaults.head_dim, 128);
  EXPECT_EQ(defaults.num_key_value_heads, 32);
  EXPECT_TRUE(defaults.attention_bias);

  config = Json::parse(kQwen3);
  config["mlp_bias"] = true;
  EXPECT_TRUE(test::has_facts(refusal(config), {"mlp_bias: true: a qwen3 model", "as with false"}));
  config = Json::parse(kQwen3);
  config["model_type"] = "qwen3_moe", config["architectures"] = {"Qwen3MoeForCausalLM"}, config["num_experts"] = 128;
  for (const char* word : {"qwen3_moe", "num_experts"})
    EXPECT_NE(refusal(config).find(word), std::string::npos) << refusal(config);
}

using Types = std::vector<std::string>;

TEST(FromHuggingFace, AMistralsLayersSlide) {
  Json config = Json::parse(kMistral);
  EXPECT_EQ(import(config).model.sliding_window, 0);
  config["sliding_window"] = 1000;
  EXPECT_EQ(import(config).model.sliding_window, 1000);
  EXPECT_EQ(import(config).model.layer_types, Types{"sliding_attention"});
  config.erase("sliding_window");
  EXPECT_EQ(import(config).model.sliding_window, 4096) << "MistralConfig's default";
  config["use_sliding_window"] = false;
  EXPECT_EQ(refusal(config), "") << "there is no window that it could mean";
  config["sliding_window"] = 1000;
  EXPECT_NE(refusal(config).find("use_sliding_window"), std::string::npos) << "transformers does not read it";
  config.erase("use_sliding_window");
  config["layer_types"] = Types(32, "sliding_attention");
  EXPECT_EQ(refusal(config), "");
  config["layer_types"][3] = "full_attention";
  EXPECT_NE(refusal(config).find("layer_types: a mistral model"), std::string::npos) << refusal(config);
  config["model_type"] = "ministral", config["architectures"] = {"MinistralForCausalLM"};
  EXPECT_FALSE(import(config).model.slides(3));
  EXPECT_TRUE(import(config).model.slides(4));
  config["sliding_window"] = Json();
  EXPECT_NE(refusal(config).find("layer_types: it has sliding_attention"), std::string::npos) << refusal(config);
  config["layer_types"] = {"sliding_attention", "chunked_attention"};
  EXPECT_TRUE(test::has_facts(refusal(config), {"layer_types: ", "chunked_attention", "32 layers"}));
}

TEST(FromHuggingFace, AQwen3SlidesWhereItIsSwitchedOn) {
  Json config = Json::parse(kQwen3);
  config["sliding_window"] = 64;
  EXPECT_EQ(import(config).model.sliding_window, 0);
  config["use_sliding_window"] = true;
  EXPECT_EQ(import(config).model.sliding_window, 0) << "the first max_window_layers have none, and that is all of them";
  config["max_window_layers"] = 26;
  const Model m = import(config).model;
  EXPECT_EQ(m.sliding_window, 64);
  EXPECT_FALSE(m.slides(25));
  EXPECT_TRUE(m.slides(26));
  Json without = config;
  without["sliding_window"] = Json();
  EXPECT_EQ(import(without).model.sliding_window, 0) << "null is no window";
  without.erase("sliding_window");
  EXPECT_EQ(import(without).model.sliding_window, 4096) << "Qwen3Config's default";
  without["use_sliding_window"] = 0;
  EXPECT_NE(refusal(without).find("use_sliding_window: 0 is not true or false"), std::string::npos);
  config["layer_types"] = Json::array();
  for (int layer = 0; layer < 28; ++layer)
    config["layer_types"].push_back(layer % 4 == 3 ? "full_attention" : "sliding_attention");
  const std::string shortest =
      "layer_types: [sliding_attention, sliding_attention, sliding_attention, full_attention]\n";
  EXPECT_NE(from_huggingface(config.dump(), "a").text.find(shortest), std::string::npos);
}

/// For models with windows: the class and its keys, and reading them back gives the same model.
TEST(ConfigJson, WindowsComeBack) {
  const auto exported = [](const std::vector<std::string>& overrides) {
    const Spec spec = resolve(kGood, overrides).spec;
    const std::string text = config_json(spec);
    const Model back = import(Json::parse(text)).model;
    EXPECT_EQ(back.sliding_window, spec.model.sliding_window) << text;
    for (std::int64_t layer = 0; layer < spec.model.num_hidden_layers; ++layer)
      EXPECT_EQ(back.slides(layer), spec.model.slides(layer)) << text;
    Spec theirs = spec;
    theirs.model = back;
    EXPECT_EQ(model_changes(theirs, spec), "");
    return Json::parse(text);
  };
  EXPECT_FALSE(exported({}).contains("sliding_window"));
  EXPECT_EQ(exported({"model.sliding_window=4"})["model_type"], "mistral");
  const std::string mixed = "model.layer_types=[sliding_attention, full_attention]";
  const Json ministral = exported({"model.sliding_window=4", mixed, "model.num_hidden_layers=3"});
  EXPECT_EQ(ministral["architectures"], Json::array({"MinistralForCausalLM"}));
  EXPECT_EQ(ministral["layer_types"], Json::array({"sliding_attention", "full_attention", "sliding_attention"}));
  const Json qwen = exported({"model.sliding_window=4", mixed, "model.qk_norm=true"});
  EXPECT_EQ(qwen["use_sliding_window"], true);
  exported({"model.sliding_window=1000000"});
}

TEST(ConfigJson, OfNoFamilyIsLoadedByNobody) {
  const Json config = Json::parse(
      config_json(resolve(kGood, {"model.qk_norm=true", "model.mlp_bias=true", "model.sliding_window=4"}).spec));
  EXPECT_EQ(config["model_type"], "llmc");
  EXPECT_TRUE(config["architectures"].empty());
  for (const char* key : {"qk_norm", "mlp_bias"}) EXPECT_EQ(config[key], true);
  EXPECT_EQ(config["sliding_window"], 4);
  EXPECT_NE(refusal(config).find("model_type"), std::string::npos);
}

TEST(FromHuggingFace, NamesAllThatIsNotTheSame) {
  Json config = changed("/hidden_act", "gelu");
  config["num_local_experts"] = 8;
  config["rope_scaling"]["rope_type"] = "longrope";
  config["new_switch"] = true;
  config.erase("vocab_size");
  const std::string message = refusal(config);
  for (const char* key : {"hidden_act", "num_local_experts", "rope_scaling.rope_type", "new_switch", "vocab_size"})
    EXPECT_NE(message.find(key), std::string::npos) << message;
}

TEST(FromHuggingFace, TellsOfAnInitializerThatCannotBe) {
  EXPECT_NE(from_huggingface(changed("/initializer_range", 0).dump(), "a").text.find("# initializer_range 0 "),
            std::string::npos);
}

TEST(FromHuggingFace, LabelsArePassedOverByName) {
  for (const auto& [pointer, value] :
       std::vector<std::pair<const char*, Json>>{{"/internal_version", "v2"},
                                                 {"/max_sequence_length", 4096},
                                                 {"/activation", "silu"},
                                                 {"/attn_implementation", "sdpa"},
                                                 {"/rope_scaling", Json{{"type", "linear"}, {"factor", 1.0}}},
                                                 {"/rope_scaling", Json{{"rope_type", "linear"}, {"factor", 1}}}})
    EXPECT_EQ(refusal(changed(pointer, value)), "") << pointer << " " << value;
  EXPECT_NE(refusal(changed("/activation", "gelu")).find("activation: \"gelu\" is not silu"), std::string::npos);
  EXPECT_EQ(import(changed("/rope_scaling", Json{{"type", "linear"}, {"factor", 2.0}})).model.rope_scaling.type,
            RopeType::linear);
}

TEST(FromHuggingFace, WritesTheRunToo) {
  const std::string text = from_huggingface(changed("/max_position_embeddings", 1000).dump(), "a").text;
  const Spec spec = resolve(text).spec;
  EXPECT_EQ(spec.batch.tokens, 1024 * 1000) << "a power of two of sequences";
  EXPECT_EQ(spec.data.validation.path, "data/my-run/val-*.bin");
  for (const char* line : {"\n  tokens: 1024000 ", "\n  compute: bf16 ", "\noptimizer:\n  lr: ", "\n  steps: ",
                           "\nevaluation:\n  every: ", "\ncheckpoint:\n  every: "})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(FromHuggingFace, SaysWhichWeightsAreNotRead) {
  const std::string text = from_huggingface(kLlama32, "a", {.command = "", .unread_weights = "pytorch_model.bin"}).text;
  EXPECT_TRUE(test::has_facts(text, {"\n# ", "pytorch_model.bin", "not used", "\n"}));
  EXPECT_EQ(text.find("from:"), std::string::npos) << text;
}

TEST(NotLoaded, IsALlamaWhoseWidthItsHeadsDoNotDivide) {
  Model model;
  model.hidden_size = 250, model.num_attention_heads = 8, model.head_dim = 32;
  EXPECT_TRUE(
      test::has_facts(not_loaded(model), {"hidden_size 250", "num_attention_heads 8", "transformers 5", "Llama"}));
  model.qk_norm = true;  // Qwen3Config of transformers has no such check
  EXPECT_EQ(not_loaded(model), "");
  model.qk_norm = false, model.hidden_size = 256, model.head_dim = 40;
  EXPECT_EQ(not_loaded(model), "");
}

TEST(RunName, KeepsANumberInFront) {
  EXPECT_EQ(run_name("7b"), "run-7b");
  EXPECT_EQ(run_name("13B"), "run-13b");
  EXPECT_EQ(run_name("Llama-3.2-1B"), "llama-3-2-1b");
  EXPECT_EQ(run_name("_x"), "x");
  EXPECT_EQ(run_name(std::string(80, '1')).size(), 64u);
}

TEST(FromHuggingFace, StrictJson) {
  for (const char* text : {"", "{", "[]", "1", "{\"model_type\": \"llama\", \"model_type\": \"llama\"}", "{\"a\": NaN}",
                           "{\"a\": \"\xff\"}", "{} {}", "{\"a\": 01}"})
    EXPECT_THROW(from_huggingface(text, "a"), Failure) << text;
  EXPECT_THROW(from_huggingface(std::string(100, '[') + std::string(100, ']'), "a"), Failure);
  EXPECT_THROW(from_huggingface("[" + std::string(2 << 20, ' ') + "]", "a"), Failure);
}

TEST(FromHuggingFace, AGitLfsPointerIsCalledThat) {
  try {
    from_huggingface("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n", "config.json");
    FAIL() << "no error";
  } catch (const Failure& failure) {
    EXPECT_TRUE(test::has_facts(failure.what(), {"config.json", "Git LFS", "`git lfs pull`"}));
  }
}

TEST(ConfigJson, BothSchemas) {
  const Json config = Json::parse(
      config_json(resolve(kGood, {"model.rope_scaling={type: llama3, factor: 8}", "model.rope_theta=123456"}).spec));
  EXPECT_EQ(config["rope_theta"], 123456);
  EXPECT_EQ(config["rope_parameters"]["rope_theta"], 123456);
  EXPECT_EQ(config["rope_scaling"]["rope_type"], "llama3");
  EXPECT_EQ(config["rope_parameters"]["factor"], 8);
  EXPECT_EQ(config["dtype"], config["torch_dtype"]);
  const Json plain = Json::parse(config_json(resolve(kGood).spec));
  EXPECT_TRUE(plain["rope_scaling"].is_null());
  EXPECT_EQ(plain["rope_parameters"]["rope_type"], "default");
}

TEST(ConfigJson, ImportGivesTheSameModel) {
  for (const char* more : {"model.rope_scaling=none", "model.qk_norm=true",
                           "model.rope_scaling={type: llama3, factor: 8.25, low_freq_factor: 1.5}"}) {
    const Spec spec =
        resolve(kGood, {more, "model.head_dim=48", "model.num_key_value_heads=2", "model.attention_bias=true",
                        "model.tie_word_embeddings=false", "model.rms_norm_eps=3e-6"})
            .spec;
    const Spec back = import(Json::parse(config_json(spec)));
    Spec there, here;
    there.model = spec.model, here.model = back.model;
    EXPECT_EQ(here.model.qk_norm, there.model.qk_norm);
    EXPECT_EQ(Json::parse(config_json(here))["model_type"], spec.model.qk_norm ? "qwen3" : "llama");
    EXPECT_EQ(config_json(here), config_json(there));
  }
}

/// transformers makes the mask of a window for every Gemma, and without layer_types most of its layers slide.
TEST(ConfigJson, FamiliesOfWindowsWithoutOne) {
  for (const char* qk_norm : {"false", "true"}) {
    const Spec spec =
        resolve(kGood, {"model.norm_place=sandwich", "model.norm_weight=one_plus", "model.hidden_act=gelu_pytorch_tanh",
                        "model.embedding_multiplier=16", fmt::format("model.qk_norm={}", qk_norm)})
            .spec;
    const Json config = Json::parse(config_json(spec));
    EXPECT_EQ(config["layer_types"],
              Json(std::vector<std::string>(static_cast<std::size_t>(spec.model.num_hidden_layers), "full_attention")));
    EXPECT_EQ(config["sliding_window"], spec.batch.sequence_length);
    EXPECT_EQ(import(config).model.sliding_window, 0);
  }
}

/// null follows from the model's sizes; a missing key is the family's default.
TEST(FromHuggingFace, HeadsOfNull) {
  Json config = changed("/model_type", "qwen3");
  config["architectures"] = {"Qwen3ForCausalLM"};
  config["num_attention_heads"] = 8;
  config["num_key_value_heads"] = nullptr;
  config["head_dim"] = nullptr;
  const Model m = import(config).model;
  EXPECT_EQ(m.num_key_value_heads, m.num_attention_heads);
  EXPECT_EQ(m.head_dim, m.hidden_size / m.num_attention_heads);
}

}  // namespace
}  // namespace llmc::spec
