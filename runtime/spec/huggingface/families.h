// Model types of transformers whose forward pass llmc trains: one row each, which import and export share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/weight_form.h"
#include "spec/spec.h"

namespace llmc::spec {

/// A boolean key of `model` that a model type reads from config.json under the same name, or fixes.
struct FamilySwitch {
  const char* name;
  bool Model::* field;
};

/// A factor of `model`, under the same name in config.json.
struct FamilyFactor {
  const char* name;
  double Model::* field;
  double (*usual)(const Model&);  // the value in most families that do not read it
};

struct Family {
  const char *model_type, *architecture;
  const char* title;                    // for people
  std::vector<std::string> reads = {};  // switches that its config.json has
  std::vector<std::string> on = {};     // switches that are always on; all others are off
  enum class Window { none, by_default, switched } window = Window::none;  // switched: by use_sliding_window
  NormPlace norm_place = NormPlace::pre;
  NormWeight norm_weight = NormWeight::plain;
  QkNormOver qk_norm_over = QkNormOver::head;  // with qk_norm
  QkNormPlace qk_norm_place = QkNormPlace::before_rope;
  bool out_bias = true;                    // with attention_bias o has one too
  HiddenAct hidden_act = HiddenAct::silu;  // under this key
  const char* act_key = "hidden_act";
  bool gated = true;         // mlp_gated
  bool interleaved = false;  // rope_interleaved
  /// Default of partial_rotary_factor; nothing: the family does not read it, and rotates all of a head.
  std::optional<double> partial_rotary = {};
  bool reads_beta = false;        // llama_4_scaling_beta, which must be there, with yarn alone
  bool mirrored = false;          // RoPE by minus the angle
  WeightForm stored = {};         // without mirrored_head, which weight_form() adds
  bool scales_embedding = false;  // embedding_multiplier is sqrt(hidden_size)
  /// Default of query_pre_attn_scalar, of which attention_multiplier is the power -0.5; 0: the family does not read it.
  std::int64_t query_scalar = 0;
  /// Defaults of attn_logit_softcapping and final_logit_softcapping, 0 without a cap; nothing: not read.
  std::optional<double> attention_cap = {}, logit_cap = {};
  bool reads_no_rope = false;  // reads no_rope_layers, flags of which 1 is a layer with RoPE
  bool reads_factors = false;  // those of family_factors(), with the default 1
  bool reads_types = false;    // reads layer_types; otherwise windows are in all layers or in none
  /// Default theta of sliding layers, whose RoPE is unscaled and in config.json an object of its own; 0: rope_theta.
  std::optional<double> local_theta = {};
  std::int64_t full_every = 0;  // with reads_types: without these every N-th layer is full, or all as sliding_window
  bool reads_pattern = false;   // N is sliding_window_pattern
  bool divides_width = false;   // since version 5 num_attention_heads must divide hidden_size
  // Defaults of config.json; nothing: num_attention_heads, and hidden_size / num_attention_heads.
  std::int64_t context = 2048;  // max_position_embeddings
  std::optional<std::int64_t> num_key_value_heads = {}, head_dim = {};
  std::int64_t sliding_window = 4096;  // 0: none
  double rope_theta = 10000, rms_norm_eps = 1e-6;
  bool tied = false;    // tie_word_embeddings
  bool padded = false;  // a pad_token_id, which need not be in the vocabulary; export writes null

  /// "a llama model", "an olmo2 model"
  std::string a_model() const;
  bool reads_switch(const std::string& name) const;
  bool has_on(const std::string& name) const;
};

/// All families. Export takes the first one that computes a model.
const std::vector<Family>& families();

const std::vector<FamilySwitch>& family_switches();

const std::vector<FamilyFactor>& family_factors();

/// Value of a factor in a family that does not read it.
double fixed_factor(const Family& family, const FamilyFactor& factor, const Model& model);

/// query_pre_attn_scalar of the model; 0 if no whole number gives its attention_multiplier.
std::int64_t query_scalar(const Model& model);

/// Keys of a spec by whose values the family does not compute the model.
std::vector<std::string> conflicting_keys(const Family& family, const Model& model);

/// The family that computes the model; null: none.
const Family* family_of(const Model& model);

/// The model as a config.json of it is read again: without keys that change nothing, and with the exact factors of its
/// family.
Model as_read_back(const Model& model);

/// How the family's files have the weights of the model.
WeightForm weight_form(const Family& family, const Model& model);

/// Why no family computes the model, with the conflicting keys of the nearest one; empty if one does.
std::string no_family(const Model& model);

}  // namespace llmc::spec
