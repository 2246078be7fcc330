#include "compiler/spec/huggingface.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "compiler/spec/load.h"
#include "spec/fingerprint.h"
#include "spec/model_config.h"
#include "spec/scalars.h"
#include "spec/schema/schema.h"

namespace llmc::spec {
namespace {

/// The section `init`: where the weights are, and what transformers draws every matrix with; llmc's own rule where the
/// file says nothing.
std::string init_text(const std::optional<double>& range, const NewData& data) {
  const std::string from =
      data.weights.empty()
          ? ""
          : fmt::format("  from: {}  # a new run starts from these weights; without this line from random ones\n",
                        yaml_path(data.weights));
  const std::string unread = data.unread_weights.empty() ? ""
                                                         : fmt::format(
                                                               "# The weights in {} are not used: init.from reads only "
                                                               "model.safetensors and the files of its index.\n"
                                                               "# A run starts from random weights.\n",
                                                               data.unread_weights);
  const bool drawn = range && *range > 0 && *range <= 100;
  const std::string section = unread + (from.empty() ? "" : "init:\n" + from);
  if (range && !drawn)
    return fmt::format("{}# initializer_range {} is not a valid standard deviation, so init has llmc's defaults.\n\n",
                       section, *range);
  if (!range) return section.empty() ? "" : section + "\n";
  return fmt::format(
      "{2}init:                                   # initializer_range; without these lines llmc's defaults\n"
      "{1}  embedding_std: {0}\n  linear: {0}\n  residual: {0}\n\n",
      number_text(*range), from, unread);
}

/// "  key: value" for each of these keys of model that has an effect; `all`: even with its default.
std::string lines_of(const Model& m, const std::vector<const char*>& leaves, const std::string& indent, bool all) {
  Spec spec;
  spec.model = m;
  std::string text;
  for (const char* leaf : leaves) {
    const Key& key = *find_key(std::string("model.") + leaf);
    const Value value = key.get(spec);
    const std::string shown = value_text(key, value);
    if (!applies(key, spec) || !present(value) || (!all && shown == key.fallback)) continue;
    if (!all && !key.derivation.empty() && key.derive(spec) == std::optional<Value>(value)) continue;
    text += fmt::format("{}{}: {}\n", indent, leaf_of(key.path), shown);
  }
  return text;
}

std::string scaling_text(const Model& m) {
  const std::string lines = lines_of(
      m,
      {"rope_scaling.type", "rope_scaling.factor", "rope_scaling.low_freq_factor", "rope_scaling.high_freq_factor",
       "rope_scaling.original_max_position_embeddings", "rope_scaling.beta_fast", "rope_scaling.beta_slow",
       "rope_scaling.attention_factor", "rope_scaling.truncate", "rope_scaling.llama_4_scaling_beta"},
      "    ", true);
  return m.rope_scaling.type == RopeType::none ? " none" : "\n" + lines.substr(0, lines.size() - 1);
}

/// The lines of what few models have.
std::string lines_of_layers(const Model& m) {
  return lines_of(m,
                  {"hidden_act",
                   "mlp_gated",
                   "embedding_norm",
                   "norm_place",
                   "norm_weight",
                   "qk_norm_over",
                   "qk_norm_place",
                   "attention_out_bias",
                   "partial_rotary_factor",
                   "rope_interleaved",
                   "sliding_window",
                   "layer_types",
                   "rope_local_theta",
                   "no_rope_layers",
                   "attention_multiplier",
                   "embedding_multiplier",
                   "residual_multiplier",
                   "logits_scaling",
                   "attn_logit_softcapping",
                   "final_logit_softcapping"},
                  "  ", false);
}

std::string comments(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += "  # " + note + "\n";
  return text;
}

/// Adds the errors of the spec, except those that follow from what the reader has refused, when the value is a default,
/// or from another error.
void add_errors(const LoadResult& check, const Model& model, Refusals& refusals) {
  const Refusals before = refusals;
  const auto refused = [&](const std::string& key) {
    if (key == "attention_multiplier" && model.head_dim < 1) return true;  // its power -0.5
    if (key == "head_dim" && (before.has("hidden_size") || before.has("num_attention_heads"))) return true;
    return before.has(key) || (key == "rope_scaling" && before.has("rope_parameters"));
  };
  const std::vector<std::string> sizes = {"hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
                                          "num_hidden_layers"};
  const bool shape_known = std::ranges::none_of(sizes, refused);
  for (const Diagnostic& wrong : check.diagnostics) {
    const std::string key = wrong.key.starts_with("model.") ? wrong.key.substr(6) : wrong.key;
    const bool relation = wrong.code.starts_with("E03");
    if (refused(key.substr(0, key.find('.'))) || (relation && !shape_known)) continue;
    refusals.add(key, wrong.message + (wrong.advice.empty() ? "" : "; " + wrong.advice));
  }
}

}  // namespace

ImportedSpec from_huggingface(const std::string& config_json_text, const std::string& name, const NewData& data) {
  Refusals refusals(data.config);
  const ModelConfig config = read_model_config(config_json_text, data.config, refusals);
  const Model& m = config.model;
  const std::string init = init_text(config.initializer_range, data);

  // A power of two of sequences, which many micro-batches and ranks divide.
  const std::int64_t length = std::clamp<std::int64_t>(config.context, 1, 2048),
                     sequences = std::bit_floor(static_cast<std::uint64_t>((1 << 20) / length));
  const std::string text = fmt::format(
      R"(# The model is that of a Hugging Face config.json, with the same names. Adapt the keys below it to your run.
# `llmc config` prints every key with its default, `llmc schema` the values that each key takes.
name: {}

model:
  vocab_size: {}
  hidden_size: {}
  num_hidden_layers: {}
  num_attention_heads: {}
  num_key_value_heads: {}
  head_dim: {}
  intermediate_size: {}
  rope_theta: {}
  rope_scaling:{}
  rms_norm_eps: {}
  tie_word_embeddings: {}
  qk_norm: {}
  attention_bias: {}
  mlp_bias: {}
{}
{}precision:
  compute: bf16                         # or fp32, fp16; master weights and sums are always fp32

batch:
  sequence_length: {}                 # the model's context length is {}
  tokens: {}                       # of one optimizer step
  micro_batch: auto                     # sequences of one pass: the fastest that fits

memory:
  budget: h100-80gb                     # a device's name, or a size such as 77GiB

optimizer:
  lr: 3.0e-4
  weight_decay: 0.1

schedule:
  kind: cosine
  steps: 20000
  warmup_steps: 400

{}
evaluation:
  every: 250
  sequences: 256                        # of one evaluation

checkpoint:
  every: 1000                           # steps

target:
  kind: cuda
  arch: [90a]
)",
      run_name(name).empty() ? "imported" : run_name(name), m.vocab_size, m.hidden_size, m.num_hidden_layers,
      m.num_attention_heads, m.num_key_value_heads, m.head_dim, m.intermediate_size, number_text(m.rope_theta),
      scaling_text(m), number_text(m.rms_norm_eps), m.tie_word_embeddings, m.qk_norm, m.attention_bias, m.mlp_bias,
      lines_of_layers(m) + comments(config.notes), init, length, config.context, sequences * length,
      data_section(data));

  // Sizes that no spec may have are found here, not when the spec is first used.
  add_errors(load_text(text, "config.json"), m, refusals);
  refusals.throw_if_any();
  return {text, config.notes};
}

}  // namespace llmc::spec
