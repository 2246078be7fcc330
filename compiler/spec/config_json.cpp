#include <nlohmann/json.hpp>

#include "compiler/spec/huggingface.h"
#include "spec/huggingface/families.h"
#include "spec/huggingface/rope.h"
#include "spec/values.h"

namespace llmc::spec {

namespace {

using Json = nlohmann::ordered_json;

/// 1 for each layer with RoPE, 0 for each without.
Json rope_flags(const Model& m) {
  Json flags = Json::array();
  for (std::int64_t layer = 0; layer < m.num_hidden_layers; ++layer) flags.push_back(m.has_rope(layer) ? 1 : 0);
  return flags;
}

/// Keys of windows: those that the family reads, or of a model of no family all of its own. `context`: the model's.
Json window_keys(const Family* family, const Model& m, std::int64_t context) {
  Json keys = Json::object();
  if (family ? family->window == Family::Window::none : !m.sliding_window) return keys;
  keys["sliding_window"] = m.sliding_window ? Json(m.sliding_window) : Json(nullptr);
  if (!m.sliding_window) {
    // transformers makes the mask of a window for every model of these types, and without types most layers slide.
    if (family && family->full_every) {
      keys["sliding_window"] = context;
      keys["layer_types"] = std::vector<std::string>(static_cast<std::size_t>(m.num_hidden_layers), kFullAttention);
    }
    return keys;
  }
  if (family && family->window == Family::Window::switched) keys["use_sliding_window"] = true;
  if (family && !family->reads_types) return keys;
  keys["layer_types"] = Json::array();
  for (std::int64_t layer = 0; layer < m.num_hidden_layers; ++layer)
    keys["layer_types"].push_back(m.slides(layer) ? kSlidingAttention : kFullAttention);
  return keys;
}

}  // namespace

std::string config_json(const Spec& spec, const StoredModel& stored) {
  const Model& m = spec.model;
  const Json rope = rope_json(m.rope_scaling);
  Json parameters = {{"rope_theta", m.rope_theta}};
  parameters.update(rope);
  const Family* family = family_of(m);
  const bool partial = family ? family->partial_rotary.has_value() : m.partial_rotary_factor != 1;
  if (partial) parameters["partial_rotary_factor"] = m.partial_rotary_factor;
  const char* dtype = row_of(stored.dtype).torch;
  const double local_theta = m.rope_local_theta != 0 ? m.rope_local_theta : m.rope_theta;
  if (family && family->local_theta)
    parameters = {{kFullAttention, parameters},
                  {kSlidingAttention, {{"rope_theta", local_theta}, {"rope_type", "default"}}}};
  Json config = {
      {"architectures", family ? Json{family->architecture} : Json::array()},
      {"model_type", family ? family->model_type : "llmc"},
      {"vocab_size", m.vocab_size},
      {"hidden_size", m.hidden_size},
      {"intermediate_size", m.intermediate_size},
      {"num_hidden_layers", m.num_hidden_layers},
      {"num_attention_heads", m.num_attention_heads},
      {"num_key_value_heads", m.num_key_value_heads},
      {"head_dim", m.head_dim},
      {family ? family->act_key : "hidden_act", text_of("model.hidden_act", spec)},
      {"max_position_embeddings", spec.batch.sequence_length},
      {"initializer_range", spec.init.embedding_std},
      {"rms_norm_eps", m.rms_norm_eps},
      {"rope_theta", m.rope_theta},
      {"rope_scaling", m.rope_scaling.type == RopeType::none ? Json(nullptr) : rope},
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
  for (const FamilySwitch& each : family_switches())
    if (!family || family->reads_switch(each.name))
      config[each.name] = m.*each.field;
    else
      config.erase(each.name);
  if (family && family->padded) config["pad_token_id"] = nullptr;
  for (const FamilyFactor& each : family_factors())
    if (!family || family->reads_factors) config[each.name] = m.*each.field;
  const auto cap = [&](const char* key, const std::optional<double>& read, double value) {
    if (family ? read.has_value() : value > 0) config[key] = value > 0 ? Json(value) : Json(nullptr);
  };
  cap("attn_logit_softcapping", family ? family->attention_cap : std::nullopt, m.attn_logit_softcapping);
  cap("final_logit_softcapping", family ? family->logit_cap : std::nullopt, m.final_logit_softcapping);
  if (family && family->query_scalar) config["query_pre_attn_scalar"] = query_scalar(m);
  for (const char* key : {"norm_place", "norm_weight", "qk_norm_over", "qk_norm_place"})
    if (!family) config[key] = text_of(std::string("model.") + key, spec);
  if (!family) config["mlp_gated"] = m.mlp_gated;
  if (partial) config["partial_rotary_factor"] = m.partial_rotary_factor;
  if (!family && m.rope_interleaved) config["rope_interleaved"] = true;
  if (!family) config["attention_out_bias"] = m.attention_out_bias;
  if (family && family->local_theta.value_or(0) != 0) config["rope_local_base_freq"] = local_theta;
  if (!family && m.rope_local_theta != 0) config["rope_local_theta"] = m.rope_local_theta;
  if (!family || family->reads_no_rope) config["no_rope_layers"] = rope_flags(m);
  config.update(window_keys(family, m, spec.batch.sequence_length));
  return config.dump(2) + "\n";
}

}  // namespace llmc::spec
