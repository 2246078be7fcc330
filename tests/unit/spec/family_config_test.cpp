// Configurations of families beyond Llama, and what each reads.
#include <fmt/format.h>

#include <cmath>

#include "../facts.h"
#include "config_texts.h"
#include "spec/huggingface/families.h"
#include "spec/model_config.h"
#include "spec/values.h"

namespace llmc::spec {
namespace {

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
  EXPECT_NE(from_huggingface(kQwen2, "a").text.find("\n  attention_out_bias: false\n"), std::string::npos);
  EXPECT_EQ(from_huggingface(kLlama32, "a").text.find("attention_out_bias"), std::string::npos);
  Json config = Json::parse(kQwen2);
  config["attention_bias"] = Json();
  EXPECT_TRUE(import(config).model.attention_bias) << "transformers does not read it";
  config["attention_bias"] = false;
  EXPECT_TRUE(test::has_facts(refusal(config), {"attention_bias: false: a qwen2 model", "as with true. Write true"}));
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
  config["tie_word_embeddings"] = Json();
  EXPECT_FALSE(import(config).model.tie_word_embeddings) << "null is false";
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
  const ImportedSpec spec = from_huggingface(kGranite, "a");
  ASSERT_EQ(spec.notes.size(), 1u);
  EXPECT_TRUE(test::has_facts(spec.notes[0], {"attention_dropout 0.1", "dropout"}));
  EXPECT_NE(spec.text.find("\n  # " + spec.notes[0] + "\n"), std::string::npos) << spec.text;
  config["attention_dropout"] = 0.0;
  EXPECT_TRUE(from_huggingface(config.dump(), "a").notes.empty());
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

TEST(FromHuggingFace, AGranitesFactorScalesNoBias) {
  for (const auto& [key, projection] : {std::pair("attention_bias", "o_proj"), {"mlp_bias", "down_proj"}}) {
    Json config = Json::parse(kGranite);
    config[key] = true;
    EXPECT_TRUE(test::has_facts(
        refusal(config),
        {fmt::format("{}: transformers multiplies the bias of {}", key, projection), "residual_multiplier 0.22"}));
    config["residual_multiplier"] = 1.0;
    EXPECT_EQ(import(config).model.mlp_bias, key == std::string("mlp_bias"));
  }
}

// allenai/OLMo-2-0425-1B, with all keys as published.
const char* const kOlmo2 = R"({
  "architectures": ["Olmo2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "eos_token_id": 100257,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
  "max_position_embeddings": 4096, "model_type": "olmo2", "num_attention_heads": 16, "num_hidden_layers": 16,
  "num_key_value_heads": 16, "pad_token_id": 100277, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 500000,
  "tie_word_embeddings": false, "torch_dtype": "float32", "transformers_version": "4.47.0.dev0", "use_cache": false,
  "vocab_size": 100352
})";

TEST(FromHuggingFace, AnOlmo2NormalisesResults) {
  const Model m = import(Json::parse(kOlmo2)).model;
  EXPECT_EQ(m.norm_place, NormPlace::post);
  EXPECT_TRUE(m.qk_norm);
  EXPECT_EQ(m.qk_norm_over, QkNormOver::width);
  Json sliding = Json::parse(kOlmo2);
  sliding["sliding_window"] = 512;
  EXPECT_TRUE(test::has_facts(refusal(sliding), {"sliding_window: 512: an olmo2 model", "Remove it"}));
  const std::string text = from_huggingface(kOlmo2, "a").text;
  for (const char* line : {"\n  norm_place: post\n", "\n  qk_norm_over: width\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  Json config = Json::parse(kOlmo2);
  config.erase("rms_norm_eps");
  EXPECT_EQ(import(config).model.rms_norm_eps, 1e-5) << "Olmo2Config's default, ten times that of others";
  EXPECT_EQ(import(Json::parse(kLlama32)).model.norm_place, NormPlace::pre);
}

// allenai/Olmo-3-1025-7B with 8 of its 32 layers.
const char* const kOlmo3 = R"({
  "architectures": ["Olmo3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "eos_token_id": 100257,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
  "max_position_embeddings": 65536, "model_type": "olmo3", "num_attention_heads": 32, "num_hidden_layers": 8,
  "num_key_value_heads": 32, "pad_token_id": 100277, "rms_norm_eps": 1e-06, "rope_scaling": {"attention_factor": 1.2079441541679836,
    "beta_fast": 32, "beta_slow": 1, "factor": 8.0, "original_max_position_embeddings": 8192, "rope_type": "yarn"},
  "rope_theta": 500000, "sliding_window": 4096, "tie_word_embeddings": false, "torch_dtype": "float32",
  "transformers_version": "4.57.0", "use_cache": false, "vocab_size": 100278
})";

TEST(FromHuggingFace, AnOlmo3ScalesRopeOfFullLayersAlone) {
  const Model m = import(Json::parse(kOlmo3)).model;
  EXPECT_EQ(m.sliding_window, 4096);
  for (const std::int64_t layer : {0, 2, 4}) EXPECT_TRUE(m.has_local_rope(layer)) << layer;
  for (const std::int64_t layer : {3, 7}) EXPECT_FALSE(m.slides(layer)) << layer;
  EXPECT_EQ(m.rope_local_theta, 500000);
  EXPECT_EQ(m.rope_scaling.type, RopeType::yarn);
  Json config = Json::parse(kOlmo3);
  config["rope_scaling"] = nullptr;
  EXPECT_EQ(import(config).model.rope_local_theta, 0) << "equal angles in all layers";
  for (const char* key : {"rope_scaling", "rope_theta"}) config.erase(key);
  Json& parameters = config["rope_parameters"];
  parameters["full_attention"] = {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}};
  parameters["sliding_attention"] = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  EXPECT_EQ(import(config).model.rope_theta, 1e6);
  EXPECT_EQ(import(config).model.rope_scaling.factor, 8);
  EXPECT_EQ(import(config).model.rope_local_theta, 10000);
  parameters["sliding_attention"] = parameters["full_attention"];
  EXPECT_TRUE(test::has_facts(refusal(config), {"rope_parameters.sliding_attention", "linear", "full layers alone"}));
  config = Json::parse(kLlama32);
  config["rope_parameters"]["full_attention"] = {{"rope_theta", 1e6}};
  EXPECT_NE(refusal(config).find("full_attention"), std::string::npos) << refusal(config);
}

// google/gemma-3-1b-pt with 6 of its 26 layers.
const char* const kGemma3 = R"({
  "architectures": ["Gemma3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "attn_logit_softcapping": null,
  "bos_token_id": 2, "cache_implementation": "hybrid", "eos_token_id": [1, 106], "final_logit_softcapping": null, "head_dim": 256,
  "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "initializer_range": 0.02, "intermediate_size": 6912,
  "max_position_embeddings": 32768, "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 6,
  "num_key_value_heads": 1, "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000,
  "rope_scaling": null, "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6, "torch_dtype": "bfloat16",
  "transformers_version": "4.50.0.dev0", "use_cache": true, "vocab_size": 262144
})";

TEST(FromHuggingFace, WhatAFileLeavesOutIsAsInTransformersOrNamed) {
  Json config = Json::parse(kGemma3);
  for (const char* key : {"max_position_embeddings", "num_key_value_heads", "head_dim", "sliding_window",
                          "query_pre_attn_scalar", "rms_norm_eps", "rope_theta", "rope_local_base_freq"})
    config.erase(key);
  const ModelConfig read = read_model_config(config.dump(), "config.json");
  EXPECT_EQ(read.context, 131072);
  EXPECT_EQ(read.model.num_key_value_heads, 4);
  EXPECT_EQ(read.model.head_dim, 256);
  EXPECT_EQ(read.model.sliding_window, 4096);
  EXPECT_EQ(read.model.rope_theta, 1e6);
  EXPECT_EQ(read.model.rope_local_theta, 1e4);
  // Factors of RoPE apply beyond the context length.
  for (const auto& [type, context] :
       {std::pair("llama", 2048), {"mistral", 131072}, {"qwen3", 32768}, {"gemma2", 8192}, {"glm4", 131072}}) {
    const Json sizes = {{"model_type", type},       {"vocab_size", 128},          {"hidden_size", 64},
                        {"num_hidden_layers", 2},   {"num_attention_heads", 4},   {"num_key_value_heads", 2},
                        {"intermediate_size", 128}, {"tie_word_embeddings", true}};
    EXPECT_EQ(read_model_config(sizes.dump(), "config.json").context, context) << type;
  }
  for (const char* key : {"vocab_size", "num_attention_heads"}) config.erase(key);
  EXPECT_TRUE(test::has_facts(refusal(config), {"vocab_size: it is missing", "num_attention_heads: it is missing"}));
}

TEST(FromHuggingFace, AGemma3) {
  const Model m = import(Json::parse(kGemma3)).model;
  EXPECT_EQ(m.norm_place, NormPlace::sandwich);
  EXPECT_EQ(m.norm_weight, NormWeight::one_plus);
  EXPECT_EQ(m.hidden_act, HiddenAct::gelu_pytorch_tanh);
  EXPECT_TRUE(m.qk_norm && m.tie_word_embeddings);
  EXPECT_EQ(m.embedding_multiplier, std::sqrt(1152.0));
  EXPECT_EQ(m.attention_multiplier, 0.0625);
  EXPECT_EQ(m.sliding_window, 512);
  for (std::int64_t layer = 0; layer < 6; ++layer) EXPECT_EQ(m.slides(layer), layer != 5) << layer;
  EXPECT_EQ(m.rope_theta, 1e6);
  EXPECT_EQ(m.rope_local_theta, 1e4);
  EXPECT_EQ(m.attn_logit_softcapping, 0);
  const std::string text = from_huggingface(kGemma3, "a").text;
  for (const char* line : {"\n  norm_weight: one_plus\n", "\n  hidden_act: gelu_pytorch_tanh\n",
                           "\n  embedding_multiplier: 33.94112549695428\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  Json config = Json::parse(kGemma3);
  config["sliding_window_pattern"] = 2;
  EXPECT_FALSE(import(config).model.slides(1));
  config["query_pre_attn_scalar"] = 100;
  EXPECT_EQ(import(config).model.attention_multiplier, 0.1);
  config["final_logit_softcapping"] = 20.0;
  EXPECT_EQ(import(config).model.final_logit_softcapping, 20);
  config["hidden_activation"] = "silu";
  config["use_bidirectional_attention"] = true;
  EXPECT_TRUE(
      test::has_facts(refusal(config), {"hidden_activation", "gelu_pytorch_tanh", "use_bidirectional_attention"}));
  EXPECT_TRUE(test::has_facts(refusal(changed("/hidden_activation", "gelu")), {"hidden_activation", "silu"}));
}

TEST(FromHuggingFace, AGemma2HasItsCapsByDefault) {
  Json config = Json::parse(kGemma3);
  for (const char* key :
       {"attn_logit_softcapping", "final_logit_softcapping", "rope_local_base_freq", "sliding_window_pattern"})
    config.erase(key);
  config["model_type"] = "gemma2";
  config["architectures"] = {"Gemma2ForCausalLM"};
  const Model m = import(config).model;
  EXPECT_EQ(m.attn_logit_softcapping, 50);
  EXPECT_EQ(m.final_logit_softcapping, 30);
  EXPECT_FALSE(m.qk_norm);
  for (std::int64_t layer = 0; layer < 6; ++layer) EXPECT_EQ(m.slides(layer), layer % 2 == 0) << layer;
  config["attn_logit_softcapping"] = nullptr;
  EXPECT_EQ(import(config).model.attn_logit_softcapping, 0);
  config["sliding_window_size"] = 512;  // published with a copy of the window
  EXPECT_EQ(import(config).model.sliding_window, 512);
  config["sliding_window_size"] = 4096;
  EXPECT_TRUE(test::has_facts(refusal(config), {"sliding_window: ", "512", "sliding_window_size", "4096"}));
}

// A GLM-4 of 9B, with 6 of its 40 layers.
const char* const kGlm4 = R"({
  "architectures": ["Glm4ForCausalLM"], "attention_bias": true, "attention_dropout": 0.0, "eos_token_id": [151329, 151336, 151338],
  "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 13696,
  "max_position_embeddings": 32768, "model_type": "glm4", "num_attention_heads": 32, "num_hidden_layers": 6,
  "num_key_value_heads": 2, "pad_token_id": 151329, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.52.0.dev0", "use_cache": true, "vocab_size": 151552
})";

TEST(FromHuggingFace, AGlm4) {
  Json config = Json::parse(kGlm4);
  const ModelConfig read = read_model_config(config.dump(), "config.json");
  EXPECT_EQ(read.model.norm_place, NormPlace::sandwich);
  EXPECT_TRUE(read.model.attention_bias && read.model.rope_interleaved && !read.model.attention_out_bias);
  EXPECT_EQ(read.model.rotary_dim(), 64);
  EXPECT_TRUE(read.weights.fused_mlp);
  EXPECT_EQ(read.weights.mirrored_head, 0);
  const auto name = [&](const char* own) { return read.weights.name_of(own); };
  EXPECT_EQ(name("model.layers.3.post_attention_layernorm.weight"), "model.layers.3.post_self_attn_layernorm.weight");
  EXPECT_EQ(name("model.layers.3.pre_feedforward_layernorm.weight"), "model.layers.3.post_attention_layernorm.weight");
  EXPECT_EQ(name("model.layers.3.input_layernorm.weight"), "model.layers.3.input_layernorm.weight");
  const std::string text = from_huggingface(kGlm4, "a").text;
  for (const char* line : {"\n  norm_place: sandwich\n", "\n  attention_out_bias: false\n",
                           "\n  partial_rotary_factor: 0.5\n", "\n  rope_interleaved: true\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  for (const char* key : {"partial_rotary_factor", "attention_bias", "rope_theta"}) config.erase(key);
  EXPECT_EQ(import(config).model.partial_rotary_factor, 0.5) << "its default";
  EXPECT_TRUE(import(config).model.attention_bias) << "its default";
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500.0}, {"partial_rotary_factor", 0.25}};
  EXPECT_EQ(import(config).model.rotary_dim(), 32);
  config["partial_rotary_factor"] = 1;
  EXPECT_TRUE(test::has_facts(refusal(config), {"partial_rotary_factor", "rope_parameters", "0.25"}));
  config = Json::parse(kGlm4);
  config["hidden_act"] = "gelu", config["partial_rotary_factor"] = 0.33, config["vocab_size"] = 0;
  const std::string all = refusal(config);
  EXPECT_TRUE(test::has_facts(all, {"3 reasons"})) << "of the reader, and of the spec's checks";
  for (const char* key : {"\n  hidden_act: ", "\n  partial_rotary_factor: ", "\n  vocab_size: "})
    EXPECT_NE(all.find(key), std::string::npos) << all;
}

TEST(FromHuggingFace, ANanochatRotatesByMinusTheAngle) {
  Json config = Json::parse(R"({"architectures": ["NanoChatForCausalLM"], "hidden_act": "relu2", "hidden_size": 768,
    "intermediate_size": 3072, "max_position_embeddings": 2048, "model_type": "nanochat", "num_attention_heads": 6,
    "num_hidden_layers": 4, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "vocab_size": 65536})");
  const ModelConfig read = read_model_config(config.dump(), "config.json");
  const Model& m = read.model;
  EXPECT_TRUE(m.qk_norm && m.embedding_norm && !m.mlp_gated && !m.tie_word_embeddings);
  EXPECT_EQ(m.qk_norm_place, QkNormPlace::after_rope);
  EXPECT_EQ(m.norm_weight, NormWeight::none);
  EXPECT_EQ(m.hidden_act, HiddenAct::relu2);
  EXPECT_EQ(m.final_logit_softcapping, 15) << "its default";
  EXPECT_EQ(m.num_key_value_heads, 6);
  EXPECT_EQ(m.rms_norm_eps, 1e-6);
  EXPECT_EQ(read.weights.mirrored_head, 128);
  EXPECT_EQ(read.weights.name_of("model.layers.0.mlp.up_proj.weight"), "model.layers.0.mlp.fc1.weight");
  EXPECT_TRUE(read.weights.mirrors("model.layers.0.self_attn.k_proj.bias"));
  EXPECT_FALSE(read.weights.mirrors("model.layers.0.self_attn.v_proj.weight"));
  EXPECT_TRUE(!read.weights.mirrors_row(63) && read.weights.mirrors_row(64) && !read.weights.mirrors_row(128));
  config["hidden_act"] = "silu";
  config["partial_rotary_factor"] = 0.5;
  EXPECT_TRUE(test::has_facts(refusal(config), {"hidden_act", "relu2", "partial_rotary_factor: 0.5", "nanochat"}));
}

TEST(FromHuggingFace, AMinistral3ScalesQ) {
  Json config = Json::parse(R"({"architectures": ["Ministral3ForCausalLM"], "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 262144, "model_type": "ministral3",
    "num_attention_heads": 32, "num_hidden_layers": 6, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
    "rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0, "llama_4_scaling_beta": 0.1,
      "max_position_embeddings": 262144, "mscale": 1.0, "mscale_all_dim": 1.0,
      "original_max_position_embeddings": 16384, "rope_theta": 1000000.0, "rope_type": "yarn", "type": "yarn"},
    "sliding_window": null, "tie_word_embeddings": false, "vocab_size": 131072})");
  const Model m = import(config).model;
  EXPECT_EQ(m.rope_scaling.llama_4_scaling_beta, 0.1);
  EXPECT_EQ(m.rope_scaling.attention_factor, 1);
  EXPECT_EQ(m.rope_scaling.original_max_position_embeddings, 16384);
  EXPECT_EQ(m.rope_theta, 1e6);
  EXPECT_EQ(m.sliding_window, 0);
  config["rope_parameters"]["max_position_embeddings"] = 4096;
  EXPECT_TRUE(test::has_facts(refusal(config), {"max_position_embeddings", "4096", "262144"}));
  config.erase("rope_parameters");
  EXPECT_TRUE(test::has_facts(refusal(config), {"rope_parameters", "llama_4_scaling_beta"}));
  Json llama = changed("/rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}, {"llama_4_scaling_beta", 0.1}});
  EXPECT_TRUE(test::has_facts(refusal(llama), {"llama_4_scaling_beta", "llama"}));
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
      {"olmo2",
       {"model.norm_place=post", "model.qk_norm=true", "model.qk_norm_over=width", "model.attention_bias=true"}},
      {"olmo3",
       {"model.norm_place=post", "model.qk_norm=true", "model.qk_norm_over=width", "model.sliding_window=4", mixed}},
      {"olmo3",
       {"model.norm_place=post", "model.qk_norm=true", "model.qk_norm_over=width", "model.sliding_window=4", mixed,
        "model.rope_local_theta=20000", "model.rope_scaling={type: linear, factor: 4}"}},
      {"gemma2",
       {"model.norm_place=sandwich", "model.norm_weight=one_plus", "model.hidden_act=gelu_pytorch_tanh",
        "model.embedding_multiplier=16", "model.attn_logit_softcapping=50", "model.sliding_window=4", mixed}},
      {"gemma3_text",
       {"model.norm_place=sandwich", "model.norm_weight=one_plus", "model.hidden_act=gelu_pytorch_tanh",
        "model.embedding_multiplier=16", "model.qk_norm=true", "model.attention_multiplier=0.125",
        "model.sliding_window=4", mixed, "model.rope_local_theta=20000", "model.final_logit_softcapping=7"}},
      {"smollm3", {"model.no_rope_layers=4"}},
      {"ministral3", {"model.rope_scaling={type: yarn, llama_4_scaling_beta: 0.1}", "model.sliding_window=4"}},
      {"glm4", {"model.norm_place=sandwich", "model.rope_interleaved=true", "model.partial_rotary_factor=0.5"}},
      {"glm4",
       {"model.norm_place=sandwich", "model.rope_interleaved=true", "model.attention_bias=true",
        "model.attention_out_bias=false", "model.rope_scaling={type: linear, factor: 4}"}},
      {"nanochat",
       {"model.qk_norm=true", "model.qk_norm_place=after_rope", "model.norm_weight=none", "model.embedding_norm=true",
        "model.hidden_act=relu2", "model.mlp_gated=false"}},
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
  const Json null = {{"rope_type", "yarn"}, {"factor", 4.0}, {"truncate", nullptr}};
  EXPECT_FALSE(import(scaled(null)).model.rope_scaling.truncate) << "null is false";
  EXPECT_NE(refusal(scaled({{"rope_type", "yarn"}})).find("rope_scaling.factor: it is missing"), std::string::npos);
  EXPECT_NE(refusal(scaled({{"rope_type", "yarn"}, {"factor", 4}, {"low_freq_factor", 1}})).find("low_freq_factor"),
            std::string::npos);
}

/// Keys that change nothing are not in a config.json, and factors are the exact ones of the family.
TEST(ConfigJson, AModelEqualsItsFile) {
  const std::vector<std::string> olmo = {"model.norm_place=post", "model.qk_norm=true", "model.qk_norm_over=width",
                                         "model.sliding_window=4",
                                         "model.layer_types=[sliding_attention, full_attention]"};
  const std::vector<std::string> gemma = {"model.norm_place=sandwich", "model.norm_weight=one_plus",
                                          "model.hidden_act=gelu_pytorch_tanh"};
  const auto with = [](std::vector<std::string> words, const std::string& more) {
    words.push_back(more);
    return words;
  };
  const std::vector<std::vector<std::string>> cases = {
      with(with(olmo, "model.rope_theta=500000"), "model.rope_local_theta=500000"),
      {"model.rope_scaling={type: linear, factor: 1}"},
      with(with(gemma, "model.embedding_multiplier=16.000001"), "model.attention_multiplier=0.1767767")};
  for (const std::vector<std::string>& overrides : cases) {
    Spec ours = resolve(kGood, overrides).spec, theirs = ours;
    theirs.model = import(Json::parse(config_json(ours))).model;
    EXPECT_NE(model_changes(theirs, ours), "") << overrides.back();
    ours.model = as_read_back(ours.model);
    theirs.model = as_read_back(theirs.model);
    EXPECT_EQ(model_changes(theirs, ours), "");
  }
  Spec other = resolve(kGood, {"model.rope_scaling={type: linear, factor: 2}"}).spec, spec = other;
  spec.model.rope_scaling = {};
  other.model = as_read_back(other.model);
  EXPECT_NE(model_changes(other, spec), "");
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

}  // namespace
}  // namespace llmc::spec
