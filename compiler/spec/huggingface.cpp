#include "compiler/spec/huggingface.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "compiler/spec/json_reader.h"
#include "compiler/spec/load.h"
#include "spec/scalars.h"
#include "spec/source.h"
#include "error.h"

namespace llmc::spec {
namespace {

using Json = nlohmann::ordered_json;

// They say how a model is stored, cached or sampled from, or what transformers returns, and never what the model
// computes.
const std::set<std::string>& harmless_keys() {
  static const std::set<std::string> keys = {"_name_or_path",
                                             "_commit_hash",
                                             "_attn_implementation",
                                             "_attn_implementation_autoset",
                                             "transformers_version",
                                             "use_cache",
                                             "cache_implementation",
                                             "bos_token_id",
                                             "eos_token_id",
                                             "pad_token_id",
                                             "sep_token_id",
                                             "cls_token_id",
                                             "mask_token_id",
                                             "decoder_start_token_id",
                                             "unk_token_id",
                                             "initializer_range",
                                             "max_position_embeddings",
                                             "pretraining_tp",
                                             "torchscript",
                                             "return_dict",
                                             "return_dict_in_generate",
                                             "output_scores",
                                             "output_attentions",
                                             "output_hidden_states",
                                             "output_logits",
                                             "id2label",
                                             "label2id",
                                             "finetuning_task",
                                             "task_specific_params",
                                             "problem_type",
                                             "tokenizer_class",
                                             "prefix",
                                             "license",
                                             "auto_map",
                                             "use_bfloat16",
                                             "tf_legacy_loss",
                                             "chunk_size_feed_forward",
                                             "do_sample",
                                             "early_stopping",
                                             "max_length",
                                             "min_length",
                                             "max_new_tokens",
                                             "num_beams",
                                             "num_beam_groups",
                                             "num_return_sequences",
                                             "temperature",
                                             "top_k",
                                             "top_p",
                                             "typical_p",
                                             "repetition_penalty",
                                             "encoder_no_repeat_ngram_size",
                                             "no_repeat_ngram_size",
                                             "length_penalty",
                                             "diversity_penalty",
                                             "bad_words_ids",
                                             "begin_suppress_tokens",
                                             "suppress_tokens",
                                             "forced_bos_token_id",
                                             "forced_eos_token_id",
                                             "exponential_decay_length_penalty",
                                             "remove_invalid_values",
                                             "is_decoder",
                                             "model_max_length",
                                             "torch_dtype",
                                             "dtype"};
  return keys;
}

[[noreturn]] void refuse(const std::string& key, const std::string& why) {
  throw Failure(Exit::spec, fmt::format("config.json: {}: {}", printable(key), why));
}

std::string shown(const Json& value) {
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60));
}

/// Reads the keys of one object; what nobody asked for is refused at the end.
class Reader {
 public:
  Reader(const Json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {
    if (!object.is_object()) refuse(prefix_.empty() ? "the file" : prefix_, "it is not an object");
  }

  /// Null counts as absent.
  const Json* find(const std::string& key) {
    seen_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  std::optional<std::int64_t> integer(const std::string& key) {
    const Json* value = find(key);
    if (!value) return {};
    if (value->is_number_unsigned() && value->get<std::uint64_t>() <= (std::uint64_t{1} << 53))
      return value->get<std::int64_t>();
    if (value->is_number_float() && *value == std::floor(value->get<double>()) && value->get<double>() >= 0 &&
        value->get<double>() < 1e15)
      return static_cast<std::int64_t>(value->get<double>());  // some writers turn integers into 8192.0
    refuse(prefix_ + key, fmt::format("{} is not a whole number", shown(*value)));
  }
  std::int64_t required(const std::string& key) {
    const auto value = integer(key);
    if (!value) refuse(prefix_ + key, "it is missing, and llmc does not guess sizes");
    return *value;
  }
  std::optional<double> number(const std::string& key) {
    const Json* value = find(key);
    if (!value) return {};
    if (!value->is_number()) refuse(prefix_ + key, fmt::format("{} is not a number", shown(*value)));
    return value->get<double>();
  }
  bool boolean(const std::string& key, bool fallback) {
    const Json* value = find(key);
    if (value && !value->is_boolean()) refuse(prefix_ + key, fmt::format("{} is not true or false", shown(*value)));
    return value ? value->get<bool>() : fallback;
  }
  std::optional<std::string> text(const std::string& key) {
    const Json* value = find(key);
    if (!value) return {};
    if (!value->is_string()) refuse(prefix_ + key, fmt::format("{} is not text", shown(*value)));
    return value->get<std::string>();
  }

  void refuse_the_rest(const std::set<std::string>& harmless) const {
    for (const auto& [key, value] : object_.items()) {
      const bool off = value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
                       ((value.is_array() || value.is_object()) && value.empty());
      if (seen_.count(key) || harmless.count(key) || off) continue;
      refuse(prefix_ + key, fmt::format("llmc does not know what {} means, so it cannot tell that it would train this "
                                        "model; remove the key if it "
                                        "changes nothing in the forward pass",
                                        shown(value)));
    }
  }

 private:
  const Json& object_;
  std::string prefix_;
  std::set<std::string> seen_;
};

/// Two sources of one value: equal, or an error that names both.
template <typename T>
std::optional<T> agree(const std::string& a_key, std::optional<T> a, const std::string& b_key, std::optional<T> b) {
  if (a && b && *a != *b) refuse(a_key, fmt::format("it says {}, but {} says {}; remove the wrong one", *a, b_key, *b));
  return a ? a : b;
}

struct Rope {
  std::optional<double> theta;
  std::optional<std::string> type;
  RopeScaling scaling;
};

/// `rope_scaling` of the older schema or `rope_parameters` of the newer one.
Rope read_rope(const Json& object, const std::string& name) {
  Reader reader(object, name + ".");
  Rope rope;
  rope.type = agree(name + ".rope_type", reader.text("rope_type"), name + ".type", reader.text("type"));
  rope.theta = reader.number("rope_theta");
  const std::string type = rope.type.value_or("default");
  if (type != "default" && type != "llama3")
    refuse(name + ".rope_type",
           fmt::format("{} is not default or llama3, the types that llmc trains exactly", in_quotes(type)));
  if (const auto partial = reader.number("partial_rotary_factor"); partial && *partial != 1)
    refuse(name + ".partial_rotary_factor", fmt::format("{} is not 1: llmc rotates all of head_dim", *partial));
  if (type == "llama3") {
    rope.scaling.llama3 = true;
    const auto need = [&](const char* key) {
      const auto value = reader.number(key);
      if (!value) refuse(name + "." + key, "it is missing, and llama3 needs it");
      return *value;
    };
    rope.scaling.factor = need("factor");
    rope.scaling.low_freq_factor = need("low_freq_factor");
    rope.scaling.high_freq_factor = need("high_freq_factor");
    rope.scaling.original_max_position_embeddings = reader.required("original_max_position_embeddings");
    reader.refuse_the_rest({});
  } else {
    // With type default these are carried along and not read.
    reader.refuse_the_rest({"original_max_position_embeddings"});
  }
  return rope;
}

void read_rope(Reader& reader, Model& model) {
  const std::optional<double> theta = reader.number("rope_theta");
  const Json* older = reader.find("rope_scaling");
  const Json* newer = reader.find("rope_parameters");
  const Rope scaling = older ? read_rope(*older, "rope_scaling") : Rope{};
  const Rope parameters = newer ? read_rope(*newer, "rope_parameters") : Rope{};
  if (older && newer) {
    const auto same = [&](const char* key, double a, double b) {
      agree<double>(fmt::format("rope_scaling.{}", key), a, fmt::format("rope_parameters.{}", key), b);
    };
    agree<std::string>("rope_scaling.rope_type", scaling.type.value_or("default"), "rope_parameters.rope_type",
                       parameters.type.value_or("default"));
    same("factor", scaling.scaling.factor, parameters.scaling.factor);
    same("low_freq_factor", scaling.scaling.low_freq_factor, parameters.scaling.low_freq_factor);
    same("high_freq_factor", scaling.scaling.high_freq_factor, parameters.scaling.high_freq_factor);
    same("original_max_position_embeddings", static_cast<double>(scaling.scaling.original_max_position_embeddings),
         static_cast<double>(parameters.scaling.original_max_position_embeddings));
  } else if (newer && theta && parameters.scaling.llama3) {
    // An old reader of this file would see theta without any scaling, and train another model.
    refuse("rope_parameters",
           "it has type llama3, but the older keys beside it (rope_theta) say nothing of a scaling; add rope_scaling "
           "or remove rope_theta");
  }
  model.rope_scaling = newer ? parameters.scaling : scaling.scaling;
  const auto nested = agree("rope_scaling.rope_theta", scaling.theta, "rope_parameters.rope_theta", parameters.theta);
  model.rope_theta =
      agree("rope_theta", theta, newer ? "rope_parameters.rope_theta" : "rope_scaling.rope_theta", nested)
          .value_or(10000);
}

void refuse_other_models(Reader& reader) {
  if (const auto type = reader.text("model_type"); type != "llama")
    refuse("model_type", type ? fmt::format("{} is not llama, the only model that llmc trains", in_quotes(*type))
                              : "it is missing, and must be llama");
  if (const Json* names = reader.find("architectures"))
    if (!names->is_array() ||
        std::any_of(names->begin(), names->end(), [](const Json& n) { return n != "LlamaForCausalLM"; }))
      refuse("architectures", fmt::format("{} is not LlamaForCausalLM", shown(*names)));
  if (const auto act = reader.text("hidden_act"); act && *act != "silu" && *act != "swish")
    refuse("hidden_act", fmt::format("{} is not silu, the gate of SwiGLU", in_quotes(*act)));
  for (const char* key : {"attention_dropout", "hidden_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob",
                          "resid_pdrop", "embd_pdrop", "attn_pdrop"})
    if (const auto rate = reader.number(key); rate && *rate != 0)
      refuse(key, fmt::format("{} is not 0: llmc has no dropout", *rate));
  if (const auto partial = reader.number("partial_rotary_factor"); partial && *partial != 1)
    refuse("partial_rotary_factor", fmt::format("{} is not 1: llmc rotates all of head_dim", *partial));
  const Json* switched = reader.find("use_sliding_window");
  const bool window_off = switched && *switched == false;
  if (const Json* window = reader.find("sliding_window"); window && !window_off)
    refuse("sliding_window", fmt::format("{}: every layer of llmc attends to the whole sequence", shown(*window)));
  if (switched && !window_off) refuse("use_sliding_window", "every layer of llmc attends to the whole sequence");
  if (const Json* types = reader.find("layer_types"))
    if (!types->is_array() ||
        std::any_of(types->begin(), types->end(), [](const Json& t) { return t != "full_attention"; }))
      refuse("layer_types", "every layer of llmc attends to the whole sequence: all must be full_attention");
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts", "num_experts_per_tok"})
    if (const auto experts = reader.number(key);
        experts && *experts > (std::string(key) == "num_experts_per_tok" ? 0 : 1))
      refuse(key, fmt::format("{}: llmc has no experts", *experts));
  if (reader.find("quantization_config"))
    refuse("quantization_config", "the weights are quantised; take the configuration of the model it was made from");
}

}  // namespace

std::string from_huggingface(const std::string& config_json_text) {
  const Json config = read_json(config_json_text, "config.json");
  Reader reader(config, "");
  refuse_other_models(reader);
  Model m;
  m.vocab_size = reader.required("vocab_size");
  m.hidden_size = reader.required("hidden_size");
  m.num_hidden_layers = reader.required("num_hidden_layers");
  m.num_attention_heads = reader.required("num_attention_heads");
  m.intermediate_size = reader.required("intermediate_size");
  m.num_key_value_heads = reader.integer("num_key_value_heads").value_or(m.num_attention_heads);
  if (m.num_attention_heads < 1) refuse("num_attention_heads", "it is 0");
  m.head_dim = reader.integer("head_dim").value_or(m.hidden_size / m.num_attention_heads);
  m.rms_norm_eps = reader.number("rms_norm_eps").value_or(1e-6);
  m.tie_word_embeddings = reader.boolean("tie_word_embeddings", false);
  m.attention_bias = reader.boolean("attention_bias", false);
  m.mlp_bias = reader.boolean("mlp_bias", false);
  read_rope(reader, m);
  agree("torch_dtype", reader.text("torch_dtype"), "dtype", reader.text("dtype"));
  reader.refuse_the_rest(harmless_keys());

  const std::int64_t context = reader.integer("max_position_embeddings").value_or(2048);
  std::string scaling = "none";
  if (m.rope_scaling.llama3)
    scaling = fmt::format(
        "\n    type: llama3\n    factor: {}\n    low_freq_factor: {}\n    high_freq_factor: {}\n    "
        "original_max_position_embeddings: {}",
        m.rope_scaling.factor, m.rope_scaling.low_freq_factor, m.rope_scaling.high_freq_factor,
        m.rope_scaling.original_max_position_embeddings);
  const std::string text = fmt::format(
      R"(# A model from Hugging Face's config.json, under the same names; the run below it is yours to fill in.
# `llmc config` prints every key with its default, `llmc schema` what each may be.
name: imported

model:
  vocab_size: {}
  hidden_size: {}
  num_hidden_layers: {}
  num_attention_heads: {}
  num_key_value_heads: {}
  head_dim: {}
  intermediate_size: {}
  rope_theta: {}
  rope_scaling: {}
  rms_norm_eps: {}
  tie_word_embeddings: {}
  attention_bias: {}
  mlp_bias: {}

batch:
  sequence_length: {}                 # the model's own context is {}
  micro_batch: auto

memory:
  budget: 80GiB                         # of the device; or its name, such as h100-80gb

data:                                   # paths are relative to this file
  train:
    - path: data/train-*.bin

target:
  kind: cuda
  arch: [90a]
)",
      m.vocab_size, m.hidden_size, m.num_hidden_layers, m.num_attention_heads, m.num_key_value_heads, m.head_dim,
      m.intermediate_size, number_text(m.rope_theta), scaling, number_text(m.rms_norm_eps), m.tie_word_embeddings,
      m.attention_bias, m.mlp_bias, std::clamp<std::int64_t>(context, 1, 2048), context);

  // Sizes that no spec may have are found here, not when the spec is first used.
  const LoadResult check = load_text(text, "config.json");
  if (!check.diagnostics.empty())
    throw Failure(Exit::spec, "config.json describes a model that llmc cannot train: " + check.diagnostics[0].message +
                                  "; " + check.diagnostics[0].advice);
  return text;
}

}  // namespace llmc::spec
