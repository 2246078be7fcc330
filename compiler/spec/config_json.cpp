#include <nlohmann/json.hpp>

#include "compiler/spec/huggingface.h"

namespace llmc::spec {

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
  const Json config = {
      {"architectures", {m.qk_norm ? "Qwen3ForCausalLM" : "LlamaForCausalLM"}},
      {"model_type", m.qk_norm ? "qwen3" : "llama"},
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
  return config.dump(2) + "\n";
}

}  // namespace llmc::spec
