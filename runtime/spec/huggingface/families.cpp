#include "spec/huggingface/families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "spec/values.h"

namespace llmc::spec {

std::string Family::a_model() const {
  const bool vowel = std::string_view("aeio").find(model_type[0]) != std::string_view::npos;
  return fmt::format("{} {} model", vowel ? "an" : "a", model_type);
}

bool Family::reads_switch(const std::string& name) const { return std::ranges::find(reads, name) != reads.end(); }

bool Family::has_on(const std::string& name) const { return std::ranges::find(on, name) != on.end(); }

namespace {

std::vector<Family> relatives_of_llama() {
  using enum Family::Window;
  return {
      {.model_type = "llama",
       .architecture = "LlamaForCausalLM",
       .title = "Llama",
       .reads = {"attention_bias", "mlp_bias"},
       .divides_width = true},
      {.model_type = "mistral",
       .architecture = "MistralForCausalLM",
       .title = "Mistral",
       .window = by_default,
       .context = 131072,
       .num_key_value_heads = 8},
      {.model_type = "ministral",
       .architecture = "MinistralForCausalLM",
       .title = "Ministral",
       .window = by_default,
       .reads_types = true,
       .context = 131072,
       .num_key_value_heads = 8},
      {.model_type = "ministral3",
       .architecture = "Ministral3ForCausalLM",
       .title = "Ministral 3",
       .window = by_default,
       .reads_beta = true,
       .context = 262144,
       .num_key_value_heads = 8,
       .head_dim = 128,
       .sliding_window = 0,
       .rms_norm_eps = 1e-5,
       .padded = true},
      {.model_type = "qwen2",
       .architecture = "Qwen2ForCausalLM",
       .title = "Qwen 2",
       .on = {"attention_bias"},
       .window = switched,
       .out_bias = false,
       .reads_types = true,
       .context = 32768,
       .num_key_value_heads = 32},
      {.model_type = "qwen3",
       .architecture = "Qwen3ForCausalLM",
       .title = "Qwen 3",
       .reads = {"attention_bias"},
       .on = {"qk_norm"},
       .window = switched,
       .reads_types = true,
       .context = 32768,
       .num_key_value_heads = 32,
       .head_dim = 128},
      {.model_type = "smollm3",
       .architecture = "SmolLM3ForCausalLM",
       .title = "SmolLM 3",
       .reads = {"attention_bias", "mlp_bias"},
       .window = switched,
       .reads_no_rope = true,
       .reads_types = true,
       .context = 32768,
       .num_key_value_heads = 4,
       .sliding_window = 0,
       .rope_theta = 2000000,
       .tied = true,
       .padded = true},
      {.model_type = "granite",
       .architecture = "GraniteForCausalLM",
       .title = "Granite",
       .reads = {"attention_bias", "mlp_bias"},
       .reads_factors = true},
      {.model_type = "olmo2",
       .architecture = "Olmo2ForCausalLM",
       .title = "OLMo 2",
       .reads = {"attention_bias"},
       .on = {"qk_norm"},
       .norm_place = NormPlace::post,
       .qk_norm_over = QkNormOver::width,
       .rms_norm_eps = 1e-5,
       .padded = true},
      {.model_type = "olmo3",
       .architecture = "Olmo3ForCausalLM",
       .title = "OLMo 3",
       .reads = {"attention_bias"},
       .on = {"qk_norm"},
       .window = by_default,
       .norm_place = NormPlace::post,
       .qk_norm_over = QkNormOver::width,
       .reads_types = true,
       .local_theta = 0,
       .full_every = 4,
       .rope_theta = 500000,
       .rms_norm_eps = 1e-5,
       .padded = true},
  };
}

/// Gemma's, which share most of a row.
std::vector<Family> gemmas() {
  const Family gemma2 = {.model_type = "gemma2",
                         .architecture = "Gemma2ForCausalLM",
                         .title = "Gemma 2",
                         .reads = {"attention_bias"},
                         .window = Family::Window::by_default,
                         .norm_place = NormPlace::sandwich,
                         .norm_weight = NormWeight::one_plus,
                         .hidden_act = HiddenAct::gelu_pytorch_tanh,
                         .act_key = "hidden_activation",
                         .scales_embedding = true,
                         .query_scalar = 256,
                         .attention_cap = 50,
                         .logit_cap = 30,
                         .reads_types = true,
                         .full_every = 2,
                         .divides_width = true,
                         .context = 8192,
                         .num_key_value_heads = 4,
                         .head_dim = 256,
                         .tied = true,
                         .padded = true};
  Family gemma3 = gemma2;
  gemma3.model_type = "gemma3_text";
  gemma3.architecture = "Gemma3ForCausalLM";
  gemma3.title = "Gemma 3";
  gemma3.on = {"qk_norm"};
  gemma3.attention_cap = gemma3.logit_cap = 0;
  gemma3.local_theta = 10000;
  gemma3.full_every = 6;
  gemma3.reads_pattern = true;
  gemma3.context = 131072;
  gemma3.rope_theta = 1000000;
  return {gemma2, gemma3};
}

/// Families whose RoPE or MLP is another one, with names of their own.
std::vector<Family> others() {
  return {{.model_type = "glm4",
           .architecture = "Glm4ForCausalLM",
           .title = "GLM-4",
           .reads = {"attention_bias"},
           .on = {"attention_bias"},
           .norm_place = NormPlace::sandwich,
           .out_bias = false,
           .interleaved = true,
           .partial_rotary = 0.5,
           .stored = {.names = {{".post_attention_layernorm.", ".post_self_attn_layernorm."},
                                {".pre_feedforward_layernorm.", ".post_attention_layernorm."},
                                {".post_feedforward_layernorm.", ".post_mlp_layernorm."}},
                      .fused_mlp = true},
           .context = 131072,
           .num_key_value_heads = 2,
           .head_dim = 128,
           .rms_norm_eps = 1.5625e-7,
           .padded = true},
          {.model_type = "nanochat",
           .architecture = "NanoChatForCausalLM",
           .title = "nanochat",
           .reads = {"attention_bias"},
           .on = {"qk_norm", "embedding_norm"},
           .norm_weight = NormWeight::none,
           .qk_norm_place = QkNormPlace::after_rope,
           .hidden_act = HiddenAct::relu2,
           .gated = false,
           .mirrored = true,
           .stored = {.names = {{".mlp.up_proj.", ".mlp.fc1."}, {".mlp.down_proj.", ".mlp.fc2."}}},
           .logit_cap = 15,
           .padded = true}};
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> table = [] {
    std::vector<Family> all = relatives_of_llama();
    for (Family& family : gemmas()) all.push_back(std::move(family));
    for (Family& family : others()) all.push_back(std::move(family));
    return all;
  }();
  return table;
}

const std::vector<FamilySwitch>& family_switches() {
  static const std::vector<FamilySwitch> table = {{"attention_bias", &Model::attention_bias},
                                                  {"mlp_bias", &Model::mlp_bias},
                                                  {"qk_norm", &Model::qk_norm},
                                                  {"embedding_norm", &Model::embedding_norm}};
  return table;
}

const std::vector<FamilyFactor>& family_factors() {
  const auto one = [](const Model&) { return 1.0; };
  static const std::vector<FamilyFactor> table = {
      {"attention_multiplier", &Model::attention_multiplier, usual_attention_multiplier},
      {"embedding_multiplier", &Model::embedding_multiplier, one},
      {"residual_multiplier", &Model::residual_multiplier, one},
      {"logits_scaling", &Model::logits_scaling, one}};
  return table;
}

double fixed_factor(const Family& family, const FamilyFactor& factor, const Model& model) {
  const bool of_width = family.scales_embedding && factor.field == &Model::embedding_multiplier;
  return of_width ? std::sqrt(static_cast<double>(model.hidden_size)) : factor.usual(model);
}

std::int64_t query_scalar(const Model& model) {
  if (model.attention_multiplier == 0) return model.head_dim;
  const double scalar = 1 / (model.attention_multiplier * model.attention_multiplier), whole = std::round(scalar);
  return whole < 0x1p53 && std::abs(scalar - whole) <= 1e-6 * whole ? static_cast<std::int64_t>(whole) : 0;
}

std::vector<std::string> conflicting_keys(const Family& family, const Model& model) {
  std::vector<std::string> keys;
  const auto expect = [&](bool computed, const std::string& key) {
    if (!computed) keys.push_back("model." + key);
  };
  for (const FamilySwitch& each : family_switches())
    expect(family.reads_switch(each.name) || model.*each.field == family.has_on(each.name), each.name);
  expect(model.attention_out_bias == (family.out_bias && model.attention_bias), "attention_out_bias");
  for (const FamilyFactor& each : family_factors()) {
    if (family.query_scalar && each.field == &Model::attention_multiplier) {
      expect(query_scalar(model) != 0, each.name);
      continue;
    }
    // A file may have fewer digits of a root.
    const double value = model.*each.field, fixed = fixed_factor(family, each, model);
    expect(
        family.reads_factors || std::abs(value - fixed) <= (family.scales_embedding ? 1e-6 * fixed : 0) || value == 0,
        each.name);
  }
  expect(family.attention_cap || model.attn_logit_softcapping == 0, "attn_logit_softcapping");
  expect(family.logit_cap || model.final_logit_softcapping == 0, "final_logit_softcapping");
  expect(model.hidden_act == family.hidden_act, "hidden_act");
  expect(model.mlp_gated == family.gated, "mlp_gated");
  expect(model.norm_weight == family.norm_weight, "norm_weight");
  expect(model.norm_place == family.norm_place, "norm_place");
  expect(!model.qk_norm || model.qk_norm_over == family.qk_norm_over, "qk_norm_over");
  expect(!model.qk_norm || model.qk_norm_place == family.qk_norm_place, "qk_norm_place");
  expect(family.partial_rotary || model.partial_rotary_factor == 1, "partial_rotary_factor");
  expect(model.rope_interleaved == family.interleaved, "rope_interleaved");
  const RopeScaling& scaling = model.rope_scaling;
  expect(!family.reads_beta || scaling.type == RopeType::yarn, "rope_scaling.type");
  expect(family.reads_beta || scaling.type != RopeType::yarn || scaling.llama_4_scaling_beta == 0,
         "rope_scaling.llama_4_scaling_beta");
  expect(family.reads_no_rope || model.no_rope_layers.empty(), "no_rope_layers");
  const std::int64_t sliding = model.sliding_layers();
  const bool scales_all = sliding && model.rope_scaling.type != RopeType::none;
  expect(family.local_theta ? model.rope_local_theta != 0 || !scales_all : model.rope_local_theta == 0,
         "rope_local_theta");
  expect(!sliding || family.window != Family::Window::none, "sliding_window");
  expect(!sliding || sliding == model.num_hidden_layers || family.reads_types, "layer_types");
  return keys;
}

const Family* family_of(const Model& model) {
  for (const Family& family : families())
    if (conflicting_keys(family, model).empty()) return &family;
  return nullptr;
}

Model as_read_back(const Model& model) {
  Model m = model;
  // Positions divided by 1, and sliding layers that rotate as the full ones do.
  if (m.rope_scaling.type == RopeType::linear && m.rope_scaling.factor == 1) m.rope_scaling = {};
  if (m.rope_scaling.type == RopeType::none && m.rope_local_theta == m.rope_theta) m.rope_local_theta = 0;
  const Family* family = family_of(m);
  if (!family) return m;
  for (const FamilyFactor& each : family_factors()) {
    const bool of_query = family->query_scalar && each.field == &Model::attention_multiplier;
    if (m.*each.field == 0 || (family->reads_factors && !of_query)) continue;
    m.*each.field = of_query ? 1 / std::sqrt(static_cast<double>(query_scalar(m))) : fixed_factor(*family, each, m);
  }
  return m;
}

WeightForm weight_form(const Family& family, const Model& model) {
  WeightForm form = family.stored;
  if (family.mirrored) form.mirrored_head = model.head_dim;
  return form;
}

std::string no_family(const Model& model) {
  const Family* nearest = nullptr;
  std::vector<std::string> keys;
  for (const Family& family : families())
    if (const auto own = conflicting_keys(family, model); !nearest || own.size() < keys.size())
      nearest = &family, keys = own;
  if (keys.empty()) return "";
  Spec spec;
  spec.model = model;
  for (std::string& key : keys) key += ": " + text_of(key, spec);
  return fmt::format("no model type of transformers computes this model: the nearest one, {}, does not have {}",
                     nearest->model_type, fmt::join(keys, ", "));
}

}  // namespace llmc::spec
