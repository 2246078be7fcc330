#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "../facts.h"
#include "compiler/spec/huggingface.h"
#include "error.h"
#include "good_spec.h"
#include "spec/model_config.h"
#include "spec/schema/schema.h"
#include "spec/values.h"

namespace llmc::spec {
namespace {

using Json = nlohmann::ordered_json;

// meta-llama/Llama-3.2-1B, with all keys as published.
const char* const kLlama32 = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001,
  "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
  "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16,
  "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0", "use_cache": true, "vocab_size": 128256
})";

Spec import(const Json& config) { return resolve(from_huggingface(config.dump(), "Some Model/1B")).spec; }

/// Message of the refusal, or "" if there is none.
std::string refusal(const Json& config) {
  try {
    from_huggingface(config.dump(), "Some Model/1B");
    return {};
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::spec);
    return failure.what();
  }
}

Json changed(const char* pointer, const Json& value) {
  Json config = Json::parse(kLlama32);
  config[Json::json_pointer(pointer)] = value;
  return config;
}

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
  const std::string text = from_huggingface(kLlama32, "a");
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
      {"/model_type", "gemma2"},
      {"/architectures", Json::array({"LlamaForSequenceClassification"})},
      {"/hidden_act", "gelu"},
      {"/attention_dropout", 0.1},
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
  config["layer_types"] = Json::array();
  for (int layer = 0; layer < 28; ++layer)
    config["layer_types"].push_back(layer % 4 == 3 ? "full_attention" : "sliding_attention");
  const std::string shortest =
      "layer_types: [sliding_attention, sliding_attention, sliding_attention, full_attention]\n";
  EXPECT_NE(from_huggingface(config.dump(), "a").find(shortest), std::string::npos);
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

// Qwen/Qwen2.5-0.5B, with all keys as published.
const char* const kQwen2 = R"({
  "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151643,
  "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02, "intermediate_size": 4864,
  "max_position_embeddings": 32768, "max_window_layers": 24, "model_type": "qwen2", "num_attention_heads": 14,
  "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.40.1", "use_cache": true,
  "use_mrope": false, "use_sliding_window": false, "vocab_size": 151936
})";

TEST(FromHuggingFace, AQwen2HasBiasesOfQKAndVAlone) {
  const Model m = import(Json::parse(kQwen2)).model;
  EXPECT_TRUE(m.attention_bias);
  EXPECT_FALSE(m.attention_out_bias);
  EXPECT_FALSE(m.mlp_bias);
  EXPECT_EQ(m.sliding_window, 0);
  EXPECT_NE(from_huggingface(kQwen2, "a").find("\n  attention_out_bias: false\n"), std::string::npos);
  EXPECT_EQ(from_huggingface(kLlama32, "a").find("attention_out_bias"), std::string::npos);
  Json config = Json::parse(kQwen2);
  config["attention_bias"] = false;
  EXPECT_TRUE(test::has_facts(refusal(config), {"attention_bias: false: a qwen2 model", "as with true"}));
}

// HuggingFaceTB/SmolLM3-3B with 8 of its 36 layers.
const char* const kSmolLm3 = R"({
  "architectures": ["SmolLM3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": null,
  "eos_token_id": 128012, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 11008,
  "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention", "full_attention", "full_attention",
    "full_attention", "full_attention"],
  "max_position_embeddings": 65536, "max_window_layers": 28, "mlp_bias": false, "model_type": "smollm3",
  "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0], "num_attention_heads": 16, "num_hidden_layers": 8,
  "num_key_value_heads": 4, "pad_token_id": 128004, "pretraining_tp": 2, "rms_norm_eps": 1e-06, "rope_scaling": null,
  "rope_theta": 5000000.0, "sliding_window": null, "torch_dtype": "bfloat16", "transformers_version": "4.54.0.dev0",
  "use_cache": false, "use_sliding_window": false, "vocab_size": 128256
})";

TEST(FromHuggingFace, ASmolLm3sOneIsALayerWithRope) {
  const Model m = import(Json::parse(kSmolLm3)).model;
  EXPECT_TRUE(m.has_rope(2));
  EXPECT_FALSE(m.has_rope(3));
  EXPECT_EQ(m.no_rope_layers.every, 4);
  EXPECT_TRUE(m.tie_word_embeddings) << "SmolLM3Config's default";
  Json config = Json::parse(kSmolLm3);
  config["no_rope_layers"][3] = 1;
  EXPECT_EQ(import(config).model.no_rope_layers.every, 8);
  config["no_rope_layers"] = {1, 0, 1, 0, 0, 1, 1, 1};
  EXPECT_EQ(import(config).model.no_rope_layers.layers, (std::vector<std::int64_t>{1, 3, 4}));
  config["no_rope_layers"] = {1, 1};
  EXPECT_TRUE(test::has_facts(refusal(config), {"no_rope_layers: ", "0 for no RoPE", "8 layers"}));
  for (const char* key : {"no_rope_layers", "rope_theta"}) config.erase(key);
  EXPECT_EQ(import(config).model.no_rope_layers.every, 4) << "by the interval";
  EXPECT_EQ(import(config).model.rope_theta, 2e6);
  config["use_sliding_window"] = true, config["sliding_window"] = 64;
  config.erase("layer_types");
  EXPECT_FALSE(import(config).model.slides(2));
  EXPECT_TRUE(import(config).model.slides(3)) << "layers without RoPE have the window";
  config = Json::parse(kLlama32);
  config["no_rope_layers"] = {1, 0};
  EXPECT_NE(refusal(config).find("no_rope_layers: a llama model"), std::string::npos) << refusal(config);
}

// ibm-granite/granite-3.0-2b-base, with all keys as published.
const char* const kGranite = R"({
  "architectures": ["GraniteForCausalLM"], "attention_bias": false, "attention_dropout": 0.1, "attention_multiplier": 0.015625,
  "bos_token_id": 0, "embedding_multiplier": 12.0, "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 2048,
  "initializer_range": 0.02, "intermediate_size": 8192, "logits_scaling": 8.0, "max_position_embeddings": 4096,
  "mlp_bias": false, "model_type": "granite", "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
  "pad_token_id": 0, "residual_multiplier": 0.22, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.46.0.dev0", "use_cache": true,
  "vocab_size": 49155
})";

TEST(FromHuggingFace, AGraniteHasMultipliers) {
  Json config = Json::parse(kGranite);
  EXPECT_NE(refusal(config).find("attention_dropout"), std::string::npos);
  config["attention_dropout"] = 0.0;
  const Model m = import(config).model;
  EXPECT_EQ(m.attention_multiplier, 0.015625);
  EXPECT_EQ(m.embedding_multiplier, 12);
  EXPECT_EQ(m.residual_multiplier, 0.22);
  EXPECT_EQ(m.logits_scaling, 8);
  config.erase("attention_multiplier");
  EXPECT_EQ(import(config).model.attention_multiplier, 1) << "GraniteConfig's default, and not head_dim^-0.5";
  EXPECT_EQ(import(Json::parse(kLlama32)).model.attention_multiplier, 0.125);
  EXPECT_TRUE(test::has_facts(refusal(changed("/residual_multiplier", 0.22)), {"residual_multiplier: 0.22: a llama"}));
}

/// Switches of families and layers without RoPE: reading an export back gives the same model.
TEST(ConfigJson, FamiliesComeBack) {
  const std::string mixed = "model.layer_types=[sliding_attention, full_attention]";
  const std::vector<std::pair<const char*, std::vector<std::string>>> cases = {
      {"qwen2", {"model.attention_bias=true", "model.attention_out_bias=false"}},
      {"qwen2", {"model.attention_bias=true", "model.attention_out_bias=false", "model.sliding_window=4", mixed}},
      {"granite",
       {"model.attention_multiplier=0.5", "model.embedding_multiplier=12", "model.residual_multiplier=0.22",
        "model.logits_scaling=8"}},
      {"granite", {"model.logits_scaling=8", "model.attention_bias=true", "model.head_dim=24"}},
      {"smollm3", {"model.no_rope_layers=4"}},
      {"smollm3", {"model.no_rope_layers=[0, 4]", "model.attention_bias=true", "model.mlp_bias=true"}},
      {"smollm3", {"model.no_rope_layers=3", "model.sliding_window=4", mixed}},
  };
  for (const auto& [type, overrides] : cases) {
    const Spec spec = resolve(kGood, overrides).spec;
    const Json config = Json::parse(config_json(spec));
    EXPECT_EQ(config["model_type"], type);
    Spec theirs = spec;
    theirs.model = import(config).model;
    EXPECT_EQ(model_changes(theirs, spec), "") << config;
  }
  const Json smol = Json::parse(config_json(resolve(kGood, {"model.no_rope_layers=4"}).spec));
  EXPECT_EQ(smol["no_rope_layers"], Json::parse("[1, 1, 1, 0, 1, 1]"));
  EXPECT_TRUE(smol.contains("pad_token_id")) << "SmolLM3Config's default may be outside of the vocabulary";
}

TEST(FromHuggingFace, Yarn) {
  const auto scaled = [](Json scaling) {
    Json config = changed("/rope_scaling", std::move(scaling));
    config["max_position_embeddings"] = 131072;
    return config;
  };
  const RopeScaling plain =
      import(scaled({{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}}))
          .model.rope_scaling;
  EXPECT_EQ(plain.type, RopeType::yarn);
  EXPECT_EQ(plain.factor, 4);
  EXPECT_EQ(plain.original_max_position_embeddings, 32768);
  EXPECT_EQ(plain.beta_fast, 32);
  EXPECT_EQ(plain.beta_slow, 1);
  EXPECT_DOUBLE_EQ(plain.attention_factor, 0.1 * std::log(4.0) + 1);
  EXPECT_TRUE(plain.truncate);
  const RopeScaling full = import(scaled({{"rope_type", "yarn"},
                                          {"factor", nullptr},
                                          {"original_max_position_embeddings", 16384},
                                          {"beta_fast", 64},
                                          {"beta_slow", 2},
                                          {"mscale", 2.0},
                                          {"mscale_all_dim", 0.5},
                                          {"truncate", false}}))
                               .model.rope_scaling;
  EXPECT_EQ(full.factor, 8) << "of the contexts";
  EXPECT_EQ(full.beta_fast, 64);
  EXPECT_EQ(full.beta_slow, 2);
  EXPECT_DOUBLE_EQ(full.attention_factor, (0.2 * std::log(8.0) + 1) / (0.05 * std::log(8.0) + 1));
  EXPECT_FALSE(full.truncate);
  EXPECT_NE(refusal(scaled({{"rope_type", "yarn"}})).find("rope_scaling.factor: it is missing"), std::string::npos);
  EXPECT_NE(refusal(scaled({{"rope_type", "yarn"}, {"factor", 4}, {"low_freq_factor", 1}})).find("low_freq_factor"),
            std::string::npos);
}

TEST(ConfigJson, ScalingsOfRopeComeBack) {
  for (const char* scaling : {"linear", "yarn"})
    for (const char* more : {"", ", factor: 3.5"}) {
      const Spec spec = resolve(kGood, {fmt::format("model.rope_scaling={{type: {}{}}}", scaling, more)}).spec;
      const Json config = Json::parse(config_json(spec));
      EXPECT_EQ(config["rope_scaling"]["rope_type"], scaling);
      Spec theirs = spec;
      theirs.model = import(config).model;
      EXPECT_EQ(model_changes(theirs, spec), "") << config;
    }
  const Spec spec = resolve(kGood, {"model.rope_scaling={type: yarn, truncate: false, attention_factor: 1.25}"}).spec;
  const Json rope = Json::parse(config_json(spec))["rope_parameters"];
  EXPECT_EQ(rope["truncate"], false);
  EXPECT_EQ(rope["attention_factor"], 1.25);
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
  EXPECT_NE(from_huggingface(changed("/initializer_range", 0).dump(), "a").find("# initializer_range 0 "),
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
  const std::string text = from_huggingface(changed("/max_position_embeddings", 1000).dump(), "a");
  const Spec spec = resolve(text).spec;
  EXPECT_EQ(spec.batch.tokens, 1024 * 1000) << "a power of two of sequences";
  EXPECT_EQ(spec.data.validation.path, "data/my-run/val-*.bin");
  for (const char* line : {"\n  tokens: 1024000 ", "\n  compute: bf16 ", "\noptimizer:\n  lr: ", "\n  steps: ",
                           "\nevaluation:\n  every: ", "\ncheckpoint:\n  every: "})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(FromHuggingFace, SaysWhichWeightsAreNotRead) {
  const std::string text = from_huggingface(kLlama32, "a", {.command = "", .unread_weights = "pytorch_model.bin"});
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

}  // namespace
}  // namespace llmc::spec
