#include "spec/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "error.h"
#include "spec/json_reader.h"
#include "spec/schema/schema.h"
#include "spec/source.h"
#include "text/plural.h"

namespace llmc::spec {
namespace {

using Json = nlohmann::ordered_json;

// Keys about storage, caching, sampling or the output of transformers, which never affect the model's computation.
const std::set<std::string>& harmless_keys() {
  static const std::set<std::string> keys = {"_name_or_path",
                                             "_commit_hash",
                                             "_attn_implementation",
                                             "attn_implementation",
                                             "internal_version",
                                             "max_sequence_length",
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
                                             "is_llama_config",
                                             "transformers.js_config",
                                             "model_max_length",
                                             "torch_dtype",
                                             "dtype"};
  return keys;
}

std::string shown(const Json& value) {
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60));
}

/// Reads the keys of one object; keys that were never read are refused at the end.
class ConfigReader {
 public:
  ConfigReader(const Json& object, std::string prefix, Refusals& refusals)
      : object_(object.is_object() ? object : kEmpty), prefix_(std::move(prefix)), refusals_(refusals) {
    if (!object.is_object()) refuse("", "it is not an object");
  }

  /// Refuses this key, or with an empty one the object, with a reason.
  void refuse(const std::string& key, const std::string& why) {
    const std::string group = prefix_.substr(0, prefix_.empty() ? 0 : prefix_.size() - 1);
    refusals_.add(key.empty() ? group.empty() ? "the file" : group : prefix_ + key, why);
  }
  Refusals& refusals() { return refusals_; }

  /// Null counts as absent.
  const Json* find(const std::string& key) {
    seen_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  bool has(const std::string& key) const { return object_.contains(key); }
  std::optional<std::int64_t> integer(const std::string& key) {
    const Json* value = find(key);
    if (!value) return {};
    if (value->is_number_unsigned() && value->get<std::uint64_t>() <= (std::uint64_t{1} << 53))
      return value->get<std::int64_t>();
    if (value->is_number_float() && *value == std::floor(value->get<double>()) && value->get<double>() >= 0 &&
        value->get<double>() < 1e15)
      return static_cast<std::int64_t>(value->get<double>());  // some writers turn integers into 8192.0
    refuse(key, fmt::format("{} is not a whole number", shown(*value)));
    return {};
  }
  std::int64_t required(const std::string& key) {
    if (!find(key)) refuse(key, "it is missing, but llmc needs every size");
    return integer(key).value_or(1);
  }
  std::optional<double> number(const std::string& key) {
    const Json* value = find(key);
    if (!value) return {};
    if (value->is_number()) return value->get<double>();
    refuse(key, fmt::format("{} is not a number", shown(*value)));
    return {};
  }
  bool boolean(const std::string& key, bool fallback) {
    const Json* value = find(key);
    if (value && value->is_boolean()) return value->get<bool>();
    if (value) refuse(key, fmt::format("{} is not true or false", shown(*value)));
    return fallback;
  }
  std::optional<std::string> text(const std::string& key) {
    const Json* value = find(key);
    if (!value) return {};
    if (value->is_string()) return value->get<std::string>();
    refuse(key, fmt::format("{} is not text", shown(*value)));
    return {};
  }

  void refuse_the_rest(const std::set<std::string>& harmless) {
    for (const auto& [key, value] : object_.items()) {
      const bool off = value.is_null() || (value.is_boolean() && !value.get<bool>()) ||
                       ((value.is_array() || value.is_object()) && value.empty());
      if (seen_.count(key) || harmless.count(key) || off) continue;
      refuse(key, fmt::format("llmc does not support {}, so it may not train this model exactly. Remove the key if it "
                              "does not change the forward pass",
                              shown(value)));
    }
  }

 private:
  static inline const Json kEmpty = Json::object();
  const Json& object_;
  std::string prefix_;
  Refusals& refusals_;
  std::set<std::string> seen_;
};

/// Two sources of one value: equal, or an error naming both.
template <typename T>
std::optional<T> agree(Refusals& refusals, const std::string& a_key, std::optional<T> a, const std::string& b_key,
                       std::optional<T> b) {
  if (a && b && *a != *b)
    refusals.add(a_key, fmt::format("it is {}, but {} is {}. Remove the wrong one", *a, b_key, *b));
  return a ? a : b;
}

struct Rope {
  std::optional<double> theta;
  std::optional<std::string> type;
  RopeScaling scaling;
};

/// Reads `rope_scaling` of the older schema or `rope_parameters` of the newer one.
Rope read_rope(const Json& object, const std::string& name, Refusals& refusals) {
  ConfigReader reader(object, name + ".", refusals);
  Rope rope;
  rope.type = agree(refusals, name + ".rope_type", reader.text("rope_type"), name + ".type", reader.text("type"));
  rope.theta = reader.number("rope_theta");
  // Dividing positions by 1 is no scaling.
  const bool divided_by_1 = rope.type == "linear" && reader.number("factor") == 1.0;
  if (divided_by_1) rope.type = "default";
  const std::string type = rope.type.value_or("default");
  if (type != "default" && type != "llama3")
    reader.refuse("rope_type",
                  fmt::format("{} is not default or llama3, the types that llmc trains exactly", in_quotes(type)));
  if (const auto partial = reader.number("partial_rotary_factor"); partial && *partial != 1)
    reader.refuse("partial_rotary_factor", fmt::format("{} is not 1: llmc rotates all of head_dim", *partial));
  if (type == "llama3") {
    rope.scaling.llama3 = true;
    const auto need = [&](const char* key) {
      const auto value = reader.number(key);
      if (!value) reader.refuse(key, "it is missing, but llama3 needs it");
      return value.value_or(1);
    };
    rope.scaling.factor = need("factor");
    rope.scaling.low_freq_factor = need("low_freq_factor");
    rope.scaling.high_freq_factor = need("high_freq_factor");
    rope.scaling.original_max_position_embeddings = reader.required("original_max_position_embeddings");
    reader.refuse_the_rest({});
  } else {
    // With type default these are present but unused.
    reader.refuse_the_rest({"original_max_position_embeddings"});
  }
  return rope;
}

void read_rope(ConfigReader& reader, Model& model) {
  const std::optional<double> theta = reader.number("rope_theta");
  const Json* older = reader.find("rope_scaling");
  const Json* newer = reader.find("rope_parameters");
  Refusals& refusals = reader.refusals();
  const Rope scaling = older ? read_rope(*older, "rope_scaling", refusals) : Rope{};
  const Rope parameters = newer ? read_rope(*newer, "rope_parameters", refusals) : Rope{};
  if (older && newer) {
    const auto same = [&](const char* key, double a, double b) {
      agree<double>(refusals, fmt::format("rope_scaling.{}", key), a, fmt::format("rope_parameters.{}", key), b);
    };
    agree<std::string>(refusals, "rope_scaling.rope_type", scaling.type.value_or("default"),
                       "rope_parameters.rope_type", parameters.type.value_or("default"));
    same("factor", scaling.scaling.factor, parameters.scaling.factor);
    same("low_freq_factor", scaling.scaling.low_freq_factor, parameters.scaling.low_freq_factor);
    same("high_freq_factor", scaling.scaling.high_freq_factor, parameters.scaling.high_freq_factor);
    same("original_max_position_embeddings", static_cast<double>(scaling.scaling.original_max_position_embeddings),
         static_cast<double>(parameters.scaling.original_max_position_embeddings));
  } else if (newer && theta && parameters.scaling.llama3) {
    // An old reader of this file would use theta without any scaling, and train another model.
    reader.refuse(
        "rope_parameters",
        "it has type llama3, but the older key rope_theta has no rope_scaling. Add rope_scaling or remove rope_theta");
  }
  model.rope_scaling = newer ? parameters.scaling : scaling.scaling;
  const auto nested =
      agree(refusals, "rope_scaling.rope_theta", scaling.theta, "rope_parameters.rope_theta", parameters.theta);
  model.rope_theta =
      agree(refusals, "rope_theta", theta, newer ? "rope_parameters.rope_theta" : "rope_scaling.rope_theta", nested)
          .value_or(10000);
}

/// A model type with the forward pass that llmc trains, and the defaults of its configuration in transformers.
struct Family {
  const char *model_type, *architecture;
  // Defaults if absent in the file; nothing: num_attention_heads, and hidden_size / num_attention_heads.
  std::optional<std::int64_t> num_key_value_heads = {}, head_dim = {};
  enum class Window { none, by_default, switched } window = Window::none;  // switched: by use_sliding_window
  bool reads_types = false;                                                // reads layer_types; otherwise its layers
                                                                           // are alike
  bool qk_norm = false;
};

const std::vector<Family>& families() {
  static const std::vector<Family> table = {{.model_type = "llama", .architecture = "LlamaForCausalLM"},
                                            {.model_type = "mistral",
                                             .architecture = "MistralForCausalLM",
                                             .num_key_value_heads = 8,
                                             .window = Family::Window::by_default},
                                            {.model_type = "ministral",
                                             .architecture = "MinistralForCausalLM",
                                             .num_key_value_heads = 8,
                                             .window = Family::Window::by_default,
                                             .reads_types = true},
                                            {.model_type = "qwen3",
                                             .architecture = "Qwen3ForCausalLM",
                                             .num_key_value_heads = 32,
                                             .head_dim = 128,
                                             .window = Family::Window::switched,
                                             .reads_types = true,
                                             .qk_norm = true}};
  return table;
}

/// Family named by the file, or the first one after a refusal.
const Family& read_family(ConfigReader& reader) {
  const auto type = reader.text("model_type");
  const Json* names = reader.find("architectures");
  std::vector<std::string> known;
  for (const Family& family : families()) {
    known.push_back(family.model_type);
    if (type != family.model_type) continue;
    if (names && (!names->is_array() || std::any_of(names->begin(), names->end(),
                                                    [&](const Json& name) { return name != family.architecture; })))
      reader.refuse("architectures", fmt::format("{} is not {}", shown(*names), family.architecture));
    return family;
  }
  const std::string models = either(known);
  reader.refuse("model_type", type ? fmt::format("{} is not {}, the models that llmc trains", in_quotes(*type), models)
                                   : fmt::format("it is missing, but must be {}", models));
  return families()[0];
}

/// sliding_window as the family interprets it; 0: none.
std::int64_t read_window(ConfigReader& reader, const Family& family, std::int64_t context) {
  constexpr std::int64_t kDefault = 4096;
  const std::optional<std::int64_t> window = reader.integer("sliding_window");
  const Json* switched = reader.find("use_sliding_window");
  const bool off = switched ? *switched == false : family.window == Family::Window::switched;
  switch (family.window) {
    case Family::Window::none:
      // A window that the whole context fits into has no effect.
      if (switched && !off) reader.refuse("use_sliding_window", fmt::format("a {} model has none", family.model_type));
      if (!off && window && *window < context)
        reader.refuse("sliding_window", fmt::format("{}: a {} model has none", *window, family.model_type));
      return 0;
    case Family::Window::switched: return off ? 0 : window.value_or(kDefault);
    case Family::Window::by_default: break;
  }
  if (switched && off && window)
    reader.refuse(
        "use_sliding_window",
        fmt::format("a {} model does not use it. Write sliding_window: null if there is none", family.model_type));
  return reader.has("sliding_window") ? window.value_or(0) : kDefault;
}

/// Type of each layer, as given in the file.
std::vector<std::string> read_layer_types(ConfigReader& reader, const Family& family, const Model& m) {
  constexpr std::int64_t kMostLayers = 1 << 16;  // a spec has fewer
  const auto layers = static_cast<std::size_t>(std::min(m.num_hidden_layers, kMostLayers));
  std::vector<std::string> types(layers, m.sliding_window ? kSlidingAttention : kFullAttention);
  if (family.window == Family::Window::switched) {
    const auto below = static_cast<std::size_t>(reader.integer("max_window_layers").value_or(28));
    std::fill_n(types.begin(), std::min(layers, below), kFullAttention);
  }
  const Json* list = reader.find("layer_types");
  if (!list || *list == Json(types)) return types;
  // For layers of one type the length of the list does not matter.
  const auto is_first = [&](const auto& type) { return !types.empty() && type == types[0]; };
  if (list->is_array() && std::ranges::all_of(types, is_first) && std::ranges::all_of(*list, is_first)) return types;
  const bool known = list->is_array() && list->size() == layers && std::ranges::all_of(*list, [](const Json& type) {
                       return type == kSlidingAttention || type == kFullAttention;
                     });
  const bool slides = known && std::ranges::find(*list, kSlidingAttention) != list->end();
  if (!known)
    reader.refuse("layer_types", fmt::format("{}: it must be {} or {}, one for each of {} layer{}", shown(*list),
                                             kSlidingAttention, kFullAttention, layers, plural(m.num_hidden_layers)));
  else if (!family.reads_types)
    reader.refuse("layer_types",
                  fmt::format("a {} model does not use it, but model_type ministral does", family.model_type));
  else if (slides && !m.sliding_window)
    reader.refuse("layer_types", "it has sliding_attention, but there is no sliding_window");
  else
    return list->get<std::vector<std::string>>();
  return types;
}

void read_windows(ConfigReader& reader, const Family& family, std::int64_t context, Model& m) {
  m.sliding_window = read_window(reader, family, context);
  m.layer_types = read_layer_types(reader, family, m);
  if (std::ranges::find(m.layer_types, kSlidingAttention) == m.layer_types.end()) m.sliding_window = 0;
}

void refuse_other_layers(ConfigReader& reader) {
  for (const char* key : {"hidden_act", "activation"})  // some writers give it twice
    if (const auto act = reader.text(key); act && *act != "silu" && *act != "swish")
      reader.refuse(key, fmt::format("{} is not silu, the gate of SwiGLU", in_quotes(*act)));
  for (const char* key : {"attention_dropout", "hidden_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob",
                          "resid_pdrop", "embd_pdrop", "attn_pdrop"})
    if (const auto rate = reader.number(key); rate && *rate != 0)
      reader.refuse(key, fmt::format("{} is not 0: llmc has no dropout", *rate));
  // Factors of 1 change nothing.
  for (const char* key : {"partial_rotary_factor", "embedding_multiplier", "residual_multiplier", "logits_scaling",
                          "logit_scale", "mup_scale"})
    if (const auto factor = reader.number(key); factor && *factor != 1)
      reader.refuse(key, std::string(key) == "partial_rotary_factor"
                             ? fmt::format("{} is not 1: llmc rotates all of head_dim", *factor)
                             : fmt::format("{} is not 1: llmc does not scale by it", *factor));
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts", "num_experts_per_tok"})
    if (const auto experts = reader.number(key);
        experts && *experts > (std::string(key) == "num_experts_per_tok" ? 0 : 1))
      reader.refuse(key, fmt::format("{}: llmc has no experts", *experts));
  if (reader.find("quantization_config"))
    reader.refuse("quantization_config", "the weights are quantised. Use the configuration of the original model");
}

}  // namespace

void Refusals::add(const std::string& key, const std::string& why) { list_.push_back(printable(key) + ": " + why); }

void Refusals::throw_if_any() const {
  if (list_.size() == 1) throw Failure(Exit::spec, name_ + ": " + list_[0]);
  if (!list_.empty())
    throw Failure(Exit::spec, fmt::format("{}: llmc cannot train this model, for {} reasons:\n  {}", name_,
                                          list_.size(), fmt::join(list_, "\n  ")));
}

ModelConfig read_model_config(const std::string& text, const std::string& name) {
  const Json config = read_json(text, name);
  Refusals refusals(name);
  ConfigReader reader(config, "", refusals);
  const std::int64_t context = reader.integer("max_position_embeddings").value_or(2048);
  const Family& family = read_family(reader);
  refuse_other_layers(reader);
  Model m;
  m.vocab_size = reader.required("vocab_size");
  m.hidden_size = reader.required("hidden_size");
  m.num_hidden_layers = reader.required("num_hidden_layers");
  m.num_attention_heads = reader.required("num_attention_heads");
  read_windows(reader, family, context, m);
  m.intermediate_size = reader.required("intermediate_size");
  m.num_key_value_heads =
      reader.integer("num_key_value_heads").value_or(family.num_key_value_heads.value_or(m.num_attention_heads));
  if (m.num_attention_heads < 1) reader.refuse("num_attention_heads", "it is 0");
  m.head_dim =
      reader.integer("head_dim")
          .value_or(family.head_dim.value_or(m.hidden_size / std::max<std::int64_t>(m.num_attention_heads, 1)));
  m.rms_norm_eps = reader.number("rms_norm_eps").value_or(1e-6);
  m.tie_word_embeddings = reader.boolean("tie_word_embeddings", false);
  m.qk_norm = family.qk_norm;
  m.attention_bias = reader.boolean("attention_bias", false);
  m.mlp_bias = reader.boolean("mlp_bias", false);
  read_rope(reader, m);
  agree(refusals, "torch_dtype", reader.text("torch_dtype"), "dtype", reader.text("dtype"));
  const std::optional<double> range = reader.number("initializer_range");
  reader.refuse_the_rest(harmless_keys());
  refusals.throw_if_any();
  return {m, context, range};
}

// Follows LlamaConfig.validate_architecture of transformers 5; Qwen3Config and MistralConfig have no such check.
std::string not_loaded(const Model& model) {
  if (model.qk_norm || model.sliding_window || model.hidden_size % model.num_attention_heads == 0) return {};
  return fmt::format(
      "hidden_size {} is not a multiple of num_attention_heads {}, and transformers 5 does not load a Llama of that "
      "shape",
      model.hidden_size, model.num_attention_heads);
}

}  // namespace llmc::spec
