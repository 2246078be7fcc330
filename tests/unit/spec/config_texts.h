// A config.json, and how tests change and import it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/spec/huggingface.h"
#include "error.h"
#include "good_spec.h"

namespace llmc::spec {

using Json = nlohmann::ordered_json;

// meta-llama/Llama-3.2-1B, with all keys as published.
inline const char* const kLlama32 = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001,
  "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
  "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16,
  "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0", "use_cache": true, "vocab_size": 128256
})";

inline Spec import(const Json& config) { return resolve(from_huggingface(config.dump(), "Some Model/1B").text).spec; }

/// Message of the refusal, or "" if there is none.
inline std::string refusal(const Json& config) {
  try {
    from_huggingface(config.dump(), "Some Model/1B");
    return {};
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::spec);
    return failure.what();
  }
}

inline Json changed(const char* pointer, const Json& value) {
  Json config = Json::parse(kLlama32);
  config[Json::json_pointer(pointer)] = value;
  return config;
}

}  // namespace llmc::spec
