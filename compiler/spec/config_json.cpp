#include <nlohmann/json.hpp>

#include "compiler/spec/huggingface.h"

namespace llmc::spec {

namespace {

/// The class of transformers that computes the model.
struct Class {
  const char *architecture, *model_type;
};

Class class_of(const Model& m) {
  if (m.qk_norm) return {"Qwen3ForCausalLM", "qwen3"};
  if (!m.sliding_window) return {"LlamaForCausalLM", "llama"};
  for (std::int64_t layer = 0; layer < m.num_hidden_layers; ++layer)
    if (!m.slides(layer)) return {"MinistralForCausalLM", "ministral"};
  return {"MistralForCausalLM", "mistral"};
}

/// Keys that the class reads of windows; none of a model without one.
nlohmann::ordered_json window_keys(const Model& m) {
  if (!m.sliding_window) return nlohmann::ordered_json::object();
  nlohmann::ordered_json keys = {{"sliding_window", m.sliding_window}};
  const std::string type = class_of(m).model_type;
  if (type == "mistral") return keys;
  std::vector<std::string> types;
  for (std::int64_t layer = 0; layer < m.num_hidden_layers; ++layer)
    types.emplace_back(m.slides(layer) ? kSlidingAttention : kFullAttention);
  if (type == "qwen3") keys["use_sliding_window"] = true;
  keys["layer_types"] = types;
  return keys;
}

}  // namespace

std::string config_json(const Spec& spec, const StoredModel& stored) {
  using Json = nlohmann::ordered_json;
  const Model& m = spec.model;
  Json rope = {{"rope_type", m.rope_scaling.llama3 ? "llama3" : "default"}};
  if (m.rope_scaling.llama3) {
    rope["factor"] = m.rope_scaling.factor;
    rope["low_freq_factor"] = m.rope_scaling.low_freq_factor;
    rope["high_freq_factor"] = m.rope_scaling.high_freq_factor;
    rope["original_max_position_embeddings"] = m.rope_scaling.original_max_position_embeddings;
  }
  Json parameters = {{"rope_theta", m.rope_theta}};
  parameters.update(rope);
  const char* dtype = row_of(stored.dtype).torch;
  const Class own = class_of(m);
  Json config = {
      {"architectures", {own.architecture}},
      {"model_type", own.model_type},
      {"vocab_size", m.vocab_size},
      {"hidden_size", m.hidden_size},
      {"intermediate_size", m.intermediate_size},
      {"num_hidden_layers", m.num_hidden_layers},
      {"num_attention_heads", m.num_attention_heads},
      {"num_key_value_heads", m.num_key_value_heads},
      {"head_dim", m.head_dim},
      {"hidden_act", "silu"},
      {"max_position_embeddings", spec.batch.sequence_length},
      {"initializer_range", spec.init.embedding_std},
      {"rms_norm_eps", m.rms_norm_eps},
      {"rope_theta", m.rope_theta},
      {"rope_scaling", m.rope_scaling.llama3 ? rope : Json(nullptr)},
      {"rope_parameters", parameters},
      {"tie_word_embeddings", m.tie_word_embeddings},
      {"attention_bias", m.attention_bias},
      {"attention_dropout", 0.0},
      {"mlp_bias", m.mlp_bias},
      {"pretraining_tp", 1},
      {"bos_token_id", nullptr},
      {"eos_token_id", stored.eos ? Json(*stored.eos) : Json(nullptr)},
      {"use_cache", true},
      {"torch_dtype", dtype},
      {"dtype", dtype},
  };
  config.update(window_keys(m));
  return config.dump(2) + "\n";
}

}  // namespace llmc::spec
