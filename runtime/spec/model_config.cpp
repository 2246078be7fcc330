#include "spec/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "error.h"
#include "spec/huggingface/config_reader.h"
#include "spec/huggingface/families.h"
#include "spec/huggingface/rope.h"
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

/// Family named by the file; null, after a refusal, if none is.
const Family* read_family(ConfigReader& reader) {
  const auto type = reader.text("model_type");
  const Json* names = reader.find("architectures");
  std::vector<std::string> known;
  for (const Family& family : families()) {
    known.push_back(family.model_type);
    if (type != family.model_type) continue;
    if (names && (!names->is_array() || std::any_of(names->begin(), names->end(),
                                                    [&](const Json& name) { return name != family.architecture; })))
      reader.refuse("architectures",
                    fmt::format("{} is not {}, the {} model that llmc trains. Write [\"{}\"] if it is", shown(*names),
                                family.architecture, family.model_type, family.architecture));
    return &family;
  }
  for (const Family& family : families())
    if (!type && names && *names == Json{family.architecture}) {
      reader.refuse("model_type", fmt::format("it is missing. Write \"{}\", the type of a {}", family.model_type,
                                              family.architecture));
      return &family;
    }
  const std::string models = either(known);
  reader.refuse("model_type", type ? fmt::format("{} is not {}, the models that llmc trains", in_quotes(*type), models)
                                   : fmt::format("it is missing, but must be {}", models));
  return nullptr;
}

/// Refuses the copy of sliding_window that Gemma's files have if it differs. `read`: the window, or 0.
void check_window_size(ConfigReader& reader, const Family& family, std::int64_t read) {
  constexpr const char* kCopy = "sliding_window_size";
  if (family.window == Family::Window::none) return;
  if (const auto copy = reader.integer(kCopy); copy && *copy != read)
    reader.refuse("sliding_window", fmt::format("it is {}, but {} is {}. Write the right one as sliding_window, and "
                                                "remove {}",
                                                read ? std::to_string(read) : "null", kCopy, *copy, kCopy));
}

/// sliding_window as the family interprets it; 0: none.
std::int64_t read_window(ConfigReader& reader, const Family& family, std::int64_t context) {
  const std::optional<std::int64_t> window = reader.integer("sliding_window");
  const Json* switched = reader.find("use_sliding_window");
  const bool off = switched ? !reader.boolean("use_sliding_window", true) : family.window == Family::Window::switched;
  const std::int64_t read = reader.has("sliding_window") ? window.value_or(0) : family.sliding_window;
  check_window_size(reader, family, read);
  switch (family.window) {
    case Family::Window::none:
      // A window that the whole context fits into has no effect.
      if (switched && !off) reader.refuse("use_sliding_window", family.a_model() + " has none. Remove it");
      if (!off && window && *window < context)
        reader.refuse("sliding_window", fmt::format("{}: {} has none. Remove it", *window, family.a_model()));
      return 0;
    case Family::Window::switched: return off ? 0 : read;
    case Family::Window::by_default: break;
  }
  if (switched && off && window)
    reader.refuse(
        "use_sliding_window",
        family.a_model() + " does not use it. Write sliding_window: null if there is none, or remove this key");
  return read;
}

/// num_hidden_layers; 1 if no spec has as many, because layers are counted and listed.
std::int64_t read_layers(ConfigReader& reader) {
  const Key& key = *find_key("model.num_hidden_layers");
  const std::int64_t layers = reader.required(key.leaf());
  if (static_cast<double>(layers) <= *key.maximum) return layers;
  reader.refuse(key.leaf(), fmt::format("{} is out of range; write {}", layers, expectation(key)));
  return 1;
}

/// Layers without RoPE, by flags of which 1 is a layer with it, or every N-th.
LayerSet read_no_rope_layers(ConfigReader& reader, const Family& family, const Model& m) {
  constexpr const char *kList = "no_rope_layers", *kInterval = "no_rope_layer_interval";
  const Json* flags = reader.find(kList);
  if (!family.reads_no_rope) {
    if (flags && !flags->empty()) reader.refuse(kList, family.a_model() + " does not read it. Remove it");
    return {};
  }
  const std::int64_t every = reader.integer(kInterval).value_or(4);
  const std::int64_t layers = m.num_hidden_layers;
  if (!flags) {
    if (every < 1) reader.refuse(kInterval, "it is 0, but must be at least 1");
    return every <= layers ? LayerSet{.every = every, .layers = {}} : LayerSet{};
  }
  const auto is_flag = [](const Json& flag) { return flag == 0 || flag == 1; };
  if (!flags->is_array() || std::ssize(*flags) < layers || !std::ranges::all_of(*flags, is_flag)) {
    reader.refuse(kList, fmt::format("{}: it must have 1, or 0 for no RoPE, for each of {} layer{}", shown(*flags),
                                     layers, plural(layers)));
    return {};
  }
  LayerSet set;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if ((*flags)[static_cast<std::size_t>(layer)] == 0) set.layers.push_back(layer);
  return shortest_layer_set(set, layers);
}

/// N of every N-th layer that is full unless the file has layer_types; 0: none.
std::int64_t full_every(ConfigReader& reader, const Family& family) {
  if (!family.reads_pattern) return family.full_every;
  constexpr const char *kPattern = "sliding_window_pattern", *kSaved = "_sliding_window_pattern";
  const std::int64_t every =
      agree(reader.refusals(), kPattern, reader.integer(kPattern), kSaved, reader.integer(kSaved))
          .value_or(family.full_every);
  if (every < 1) reader.refuse(kPattern, "it is 0, but must be at least 1");
  return std::max<std::int64_t>(every, 1);
}

/// Type of each layer, as given in the file.
std::vector<std::string> read_layer_types(ConfigReader& reader, const Family& family, const Model& m) {
  const auto layers = static_cast<std::size_t>(m.num_hidden_layers);
  std::vector<std::string> types(layers, m.sliding_window ? kSlidingAttention : kFullAttention);
  if (family.window == Family::Window::switched) {
    const auto below = static_cast<std::size_t>(reader.integer("max_window_layers").value_or(28));
    if (family.reads_no_rope)
      for (std::size_t layer = 0; layer < layers; ++layer) {
        if (m.has_rope(static_cast<std::int64_t>(layer))) types[layer] = kFullAttention;
      }
    else
      std::fill_n(types.begin(), std::min(layers, below), kFullAttention);
  }
  const std::int64_t every = full_every(reader, family);
  if (every && m.sliding_window)
    for (std::size_t layer = 0; layer < layers; ++layer)
      if ((layer + 1) % static_cast<std::size_t>(every) == 0) types[layer] = kFullAttention;
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
                  family.a_model() + " does not use it. Write model_type: \"ministral\", which does, or remove it");
  else if (slides && !m.sliding_window)
    reader.refuse("layer_types", "it has sliding_attention, but there is no sliding_window. Write one");
  else
    return list->get<std::vector<std::string>>();
  return types;
}

void read_windows(ConfigReader& reader, const Family& family, std::int64_t context, Model& m) {
  m.sliding_window = read_window(reader, family, context);
  m.layer_types = read_layer_types(reader, family, m);
  if (std::ranges::find(m.layer_types, kSlidingAttention) == m.layer_types.end()) m.sliding_window = 0;
}

/// Refuses a value of a key that the family does not read.
template <typename T>
void refuse_fixed(ConfigReader& reader, const Family& family, const char* key, T given, T fixed) {
  reader.refuse(key, fmt::format("{}: {} does not read it, and is as with {}. Write {}, or remove it", given,
                                 family.a_model(), fixed, fixed));
}

/// Reads the factors of the family, and refuses others that the file has with an effect.
void read_factors(ConfigReader& reader, const Family& family, Model& m) {
  for (const FamilyFactor& each : family_factors()) {
    const std::optional<double> given = reader.number(each.name);
    m.*each.field = family.reads_factors ? given.value_or(1) : fixed_factor(family, each, m);
    if (!family.reads_factors && given && *given != m.*each.field)
      refuse_fixed(reader, family, each.name, *given, m.*each.field);
  }
  // llmc's factor is one of the product, to which it adds the bias unscaled (E0333).
  const auto refuse_bias = [&](const char* key, bool bias, const char* projection) {
    if (bias && m.residual_multiplier != 1)
      reader.refuse(key, fmt::format("transformers multiplies the bias of {} by residual_multiplier {}, and llmc adds "
                                     "it unscaled. Choose a model without biases, or with residual_multiplier 1",
                                     projection, m.residual_multiplier));
  };
  refuse_bias("attention_bias", m.attention_out_bias, "o_proj");
  refuse_bias("mlp_bias", m.mlp_bias, "down_proj");
  if (family.query_scalar) {
    constexpr const char* kScalar = "query_pre_attn_scalar";
    const double scalar = reader.number(kScalar).value_or(static_cast<double>(family.query_scalar));
    if (scalar <= 0)
      reader.refuse(kScalar, fmt::format("{} is not above 0. Write {}, its default", scalar, family.query_scalar));
    m.attention_multiplier = 1 / std::sqrt(scalar);
  }
  const auto cap = [&](const char* key, const std::optional<double>& usual) {
    if (!usual) return 0.0;
    return reader.has(key) ? reader.number(key).value_or(0) : *usual;
  };
  m.attn_logit_softcapping = cap("attn_logit_softcapping", family.attention_cap);
  m.final_logit_softcapping = cap("final_logit_softcapping", family.logit_cap);
}

/// Reads the switches of the family, and refuses others that the file has with an effect.
void read_switches(ConfigReader& reader, const Family& family, Model& m) {
  for (const FamilySwitch& each : family_switches()) {
    const bool fixed = family.has_on(each.name), reads = family.reads_switch(each.name);
    const bool read = reads || reader.find(each.name) ? reader.boolean(each.name, fixed) : fixed;
    m.*each.field = read;
    if (reads || read == fixed) continue;
    refuse_fixed(reader, family, each.name, read, fixed);
  }
  m.attention_out_bias = family.out_bias && m.attention_bias;
  m.norm_place = family.norm_place;
  m.qk_norm_over = family.qk_norm_over;
  m.qk_norm_place = family.qk_norm_place;
  m.norm_weight = family.norm_weight;
  m.hidden_act = family.hidden_act;
  m.mlp_gated = family.gated;
}

/// Words of the family's activation in a config.json, with what it is.
struct ActWords {
  std::vector<std::string> words;
  const char* what;
};

ActWords words_of(HiddenAct act) {
  switch (act) {
    case HiddenAct::gelu_pytorch_tanh: return {{"gelu_pytorch_tanh"}, "gelu_pytorch_tanh, the gate of GeGLU"};
    case HiddenAct::relu2: return {{"relu2"}, "relu2, the square of ReLU"};
    case HiddenAct::silu: break;
  }
  return {{"silu", "swish"}, "silu, the gate of SwiGLU"};
}

void refuse_other_activations(ConfigReader& reader, const Family& family) {
  const ActWords known = words_of(family.hidden_act);
  for (const char* key : {"hidden_act", "activation", "hidden_activation"})  // some writers give it twice
    if (const auto act = reader.text(key); act && std::ranges::find(known.words, *act) == known.words.end())
      reader.refuse(key, fmt::format("{} is not {}. Write \"{}\" to train with that", in_quotes(*act), known.what,
                                     known.words[0]));
}

/// Refuses layers that no family has.
void refuse_other_layers(ConfigReader& reader) {
  if (reader.boolean("use_bidirectional_attention", false))
    reader.refuse("use_bidirectional_attention", "llmc's attention is causal. Write false to train with that");
  // Factors of 1 change nothing.
  for (const char* key : {"logit_scale", "mup_scale"})
    if (const auto factor = reader.number(key); factor && *factor != 1)
      reader.refuse(key, fmt::format("{} is not 1: llmc does not scale by it. Write 1 to train without", *factor));
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts", "num_experts_per_tok"})
    if (const auto experts = reader.number(key);
        experts && *experts > (std::string(key) == "num_experts_per_tok" ? 0 : 1))
      reader.refuse(key, fmt::format("{}: llmc has no experts. Choose a dense model", *experts));
  if (reader.find("quantization_config"))
    reader.refuse("quantization_config", "the weights are quantised. Use the configuration of the original model");
}

/// Reads rates of dropout. They change training alone.
std::vector<std::string> notes_on_dropout(ConfigReader& reader) {
  std::vector<std::string> notes;
  for (const char* key :
       {"attention_dropout", "hidden_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob", "resid_pdrop",
        "embd_pdrop", "attn_pdrop", "dropout", "embedding_dropout", "residual_dropout", "classifier_dropout"})
    if (const auto rate = reader.number(key); rate && *rate != 0)
      notes.push_back(fmt::format(
          "{} {} is not used: dropout only affects how the weights were trained, and llmc trains without it", key,
          *rate));
  return notes;
}

/// Refuses the file of a model with several parts, of which text_config is the language model. Its other keys are not
/// reasons.
void refuse_model_inside(const Json& config, Refusals& refusals) {
  constexpr const char* kInside = "text_config";
  if (!config.is_object() || !config.contains(kInside) || !config[kInside].is_object() ||
      config.contains("hidden_size"))
    return;
  ConfigReader inside(config[kInside], std::string(kInside) + ".", refusals);
  if (read_family(inside))
    refusals.add(kInside,
                 "the language model is in here. Write the contents of text_config as the config.json of "
                 "another folder, and link the weight files there to start from them");
  refusals.throw_if_any();
}

}  // namespace

void Refusals::add(const std::string& key, const std::string& why) {
  list_.push_back(printable(key) + ": " + why);
  keys_.push_back(key);
}

bool Refusals::has(const std::string& key) const {
  return std::ranges::any_of(keys_,
                             [&](const std::string& each) { return each == key || each.starts_with(key + "."); });
}

void Refusals::throw_if_any() const {
  if (list_.size() == 1) throw Failure(Exit::spec, name_ + ": " + list_[0]);
  if (!list_.empty())
    throw Failure(Exit::spec, fmt::format("{}: llmc cannot train this model, for {} reasons:\n  {}", name_,
                                          list_.size(), fmt::join(list_, "\n  ")));
}

ModelConfig read_model_config(const std::string& text, const std::string& name) {
  Refusals refusals(name);
  ModelConfig config = read_model_config(text, name, refusals);
  refusals.throw_if_any();
  return config;
}

ModelConfig read_model_config(const std::string& text, const std::string& name, Refusals& refusals) {
  const Json config = read_json(text, name);
  refuse_model_inside(config, refusals);
  ConfigReader reader(config, "", refusals);
  const Family* named = read_family(reader);
  if (named) refuse_other_activations(reader, *named);
  refuse_other_layers(reader);
  // Nothing else can be right or wrong in a model of an unknown type.
  if (!named) refusals.throw_if_any();
  const Family& family = *named;
  const std::int64_t context = reader.integer("max_position_embeddings").value_or(family.context);
  const std::vector<std::string> notes = notes_on_dropout(reader);
  Model m;
  m.vocab_size = reader.required("vocab_size");
  m.hidden_size = reader.required("hidden_size");
  m.num_hidden_layers = read_layers(reader);
  m.num_attention_heads = reader.required("num_attention_heads");
  m.no_rope_layers = read_no_rope_layers(reader, family, m);
  read_windows(reader, family, context, m);
  m.intermediate_size = reader.required("intermediate_size");
  // null follows from the model's sizes; without the key the family has a default.
  m.num_key_value_heads =
      reader.integer("num_key_value_heads")
          .value_or(reader.has("num_key_value_heads") ? m.num_attention_heads
                                                      : family.num_key_value_heads.value_or(m.num_attention_heads));
  if (m.num_attention_heads < 1) reader.refuse("num_attention_heads", "it is 0");
  const std::int64_t divided = m.hidden_size / std::max<std::int64_t>(m.num_attention_heads, 1);
  m.head_dim =
      reader.integer("head_dim").value_or(reader.has("head_dim") ? divided : family.head_dim.value_or(divided));
  m.rms_norm_eps = reader.number("rms_norm_eps").value_or(family.rms_norm_eps);
  m.tie_word_embeddings = reader.boolean("tie_word_embeddings", family.tied);
  read_switches(reader, family, m);
  read_factors(reader, family, m);
  read_rope(reader, family, context, m);
  agree(refusals, "torch_dtype", reader.text("torch_dtype"), "dtype", reader.text("dtype"));
  const std::optional<double> range = reader.number("initializer_range");
  reader.refuse_the_rest(harmless_keys());
  return {m, context, range, weight_form(family, m), notes};
}

// Follows LlamaConfig.validate_architecture of transformers 5; other configurations have no such check.
std::string not_loaded(const Model& model) {
  const Family* family = family_of(model);
  if (!family || !family->divides_width || model.hidden_size % model.num_attention_heads == 0) return {};
  return fmt::format(
      "hidden_size {} is not a multiple of num_attention_heads {}, and transformers 5 does not load a {} of that shape",
      model.hidden_size, model.num_attention_heads, family->title);
}

}  // namespace llmc::spec
