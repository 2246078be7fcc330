#include "spec/huggingface/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "spec/schema/schema.h"
#include "spec/source.h"

namespace llmc::spec {
namespace {

using Json = nlohmann::ordered_json;

struct Rope {
  std::optional<double> theta;
  std::optional<std::string> type;
  RopeScaling scaling;
  std::optional<double> partial;  // partial_rotary_factor
  bool known = true;              // the type
};

/// Words of RopeType in a config.json.
constexpr const char* kRopeTypes[] = {"default", "llama3", "linear", "yarn"};

/// yarn's scale of sines and cosines, from the keys that give it.
double attention_factor(ConfigReader& reader, double factor) {
  const auto given = reader.number("attention_factor"), mscale = reader.number("mscale"),
             all = reader.number("mscale_all_dim");
  const auto of = [&](double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; };
  if (given) return *given;
  return mscale.value_or(0) != 0 && all.value_or(0) != 0 ? of(*mscale) / of(*all) : of(1);
}

/// Reads the keys of the type. `context`: max_position_embeddings.
RopeScaling read_scaling(ConfigReader& reader, RopeType type, std::int64_t context) {
  RopeScaling scaling{.type = type};
  const auto need = [&](const char* key) {
    const auto value = reader.number(key);
    if (!value) reader.refuse(key, fmt::format("it is missing, but {} needs it", kRopeTypes[static_cast<int>(type)]));
    return value.value_or(1);
  };
  // Zero and null stand for the default, as in transformers.
  const auto or_default = [&](const char* key, double fallback) {
    const double value = reader.number(key).value_or(0);
    return value != 0 ? value : fallback;
  };
  if (type == RopeType::yarn) {
    scaling.original_max_position_embeddings = reader.integer("original_max_position_embeddings").value_or(context);
    const bool ratio = reader.has("factor") && !reader.find("factor") && scaling.original_max_position_embeddings > 0;
    scaling.factor = ratio
                         ? static_cast<double>(context) / static_cast<double>(scaling.original_max_position_embeddings)
                         : need("factor");
    scaling.beta_fast = or_default("beta_fast", 32);
    scaling.beta_slow = or_default("beta_slow", 1);
    scaling.attention_factor = attention_factor(reader, scaling.factor);
    scaling.truncate = reader.boolean("truncate", true);
    scaling.llama_4_scaling_beta = reader.number("llama_4_scaling_beta").value_or(0);
    // Ministral 3 writes the context there, too, which transformers does not read.
    if (const auto same = reader.integer("max_position_embeddings"); same && *same != context)
      reader.refuse("max_position_embeddings",
                    fmt::format("it is {}, but that of the file is {}. Remove the wrong one", *same, context));
    return scaling;
  }
  scaling.factor = need("factor");
  if (type == RopeType::linear) return scaling;
  scaling.low_freq_factor = need("low_freq_factor");
  scaling.high_freq_factor = need("high_freq_factor");
  scaling.original_max_position_embeddings = reader.required("original_max_position_embeddings");
  return scaling;
}

/// Reads `rope_scaling` of the older schema or `rope_parameters` of the newer one.
Rope read_rope(const Json& object, const std::string& name, std::int64_t context, Refusals& refusals) {
  ConfigReader reader(object, name + ".", refusals);
  Rope rope;
  rope.type = agree(refusals, name + ".rope_type", reader.text("rope_type"), name + ".type", reader.text("type"));
  rope.theta = reader.number("rope_theta");
  // Dividing positions by 1 is no scaling.
  const bool divided_by_1 = rope.type == "linear" && reader.number("factor") == 1.0;
  if (divided_by_1) rope.type = "default";
  const std::string type = rope.type.value_or("default");
  const auto known = std::ranges::find(kRopeTypes, type);
  rope.known = known != std::end(kRopeTypes);
  if (!rope.known)
    reader.refuse("rope_type", fmt::format("{} is not {}, the types that llmc trains exactly", in_quotes(type),
                                           either({std::begin(kRopeTypes), std::end(kRopeTypes)})));
  rope.partial = reader.number("partial_rotary_factor");
  if (type != "default" && rope.known) {
    rope.scaling = read_scaling(reader, static_cast<RopeType>(known - std::begin(kRopeTypes)), context);
    reader.refuse_the_rest({});
  } else if (rope.known) {
    // With type default these are present but unused.
    reader.refuse_the_rest({"original_max_position_embeddings"});
  }
  return rope;
}

}  // namespace

namespace {

/// Part of rope_parameters for layers of one type; null without one.
const Json* part_of(const Json* parameters, const char* type) {
  const bool has = parameters && parameters->is_object() && parameters->contains(type);
  return has && (*parameters)[type].is_object() ? &(*parameters)[type] : nullptr;
}

/// Of rope_parameters with a part for each type of layers: the one that all layers of the model have. A family without
/// local_theta has one RoPE.
const Json* the_only_part(ConfigReader& reader, const Family& family, const Json* full, const Json* sliding,
                          const Model& m) {
  const std::int64_t slides = m.sliding_layers();
  if (!full || !sliding) return full ? full : sliding;
  if (slides == 0) return full;
  // Of an ordered object the order of keys counts.
  if (slides != m.num_hidden_layers && nlohmann::json(*full) != nlohmann::json(*sliding))
    reader.refuse("rope_parameters",
                  fmt::format("full_attention and sliding_attention differ, but {} has one RoPE for all layers. Write "
                              "its keys without full_attention and sliding_attention",
                              family.a_model()));
  return sliding;
}

/// Sets rope_local_theta where sliding layers have other angles than the full ones. `sliding`: their part of
/// rope_parameters, or null.
void read_local_rope(ConfigReader& reader, const Family& family, const Json* sliding, std::int64_t context, Model& m) {
  const Rope local =
      sliding ? read_rope(*sliding, "rope_parameters.sliding_attention", context, reader.refusals()) : Rope{};
  const std::optional<double> older = *family.local_theta != 0 ? reader.number("rope_local_base_freq") : std::nullopt;
  if (local.scaling.type != RopeType::none)
    reader.refuse("rope_parameters.sliding_attention",
                  fmt::format("it has type {}, but llmc scales RoPE of full layers alone. Write type default",
                              kRopeTypes[static_cast<int>(local.scaling.type)]));
  const double theta = agree(reader.refusals(), "rope_local_base_freq", older,
                             "rope_parameters.sliding_attention.rope_theta", local.theta)
                           .value_or(*family.local_theta != 0 ? *family.local_theta : m.rope_theta);
  if (m.sliding_layers() && (theta != m.rope_theta || m.rope_scaling.type != RopeType::none))
    m.rope_local_theta = theta;
}

/// Reads partial_rotary_factor. It stands for itself, or in one of RoPE's objects.
void read_partial(ConfigReader& reader, const Family& family, const Rope& older, const Rope& newer, Model& m) {
  constexpr const char* kFactor = "partial_rotary_factor";
  const std::string in_older = std::string("rope_scaling.") + kFactor,
                    in_newer = std::string("rope_parameters.") + kFactor;
  Refusals& refusals = reader.refusals();
  const auto nested = agree(refusals, in_older, older.partial, in_newer, newer.partial);
  const auto factor = agree(refusals, kFactor, reader.number(kFactor), newer.partial ? in_newer : in_older, nested);
  if (!family.partial_rotary && factor.value_or(1) != 1)
    reader.refuse(kFactor, fmt::format("{}: {} does not read it, and rotates all of head_dim. Write 1, or remove it",
                                       *factor, family.a_model()));
  m.partial_rotary_factor = family.partial_rotary ? factor.value_or(*family.partial_rotary) : 1;
  m.rope_interleaved = family.interleaved;
}

}  // namespace

void read_rope(ConfigReader& reader, const Family& family, std::int64_t context, Model& model) {
  const std::optional<double> theta = reader.number("rope_theta");
  const Json* older = reader.find("rope_scaling");
  const Json* newer = reader.find("rope_parameters");
  const Json *full = part_of(newer, kFullAttention), *sliding = part_of(newer, kSlidingAttention);
  if (family.local_theta && (full || sliding))
    newer = full;
  else if (full || sliding)
    newer = the_only_part(reader, family, full, sliding, model);
  const std::string name = std::string("rope_parameters") + (!newer || (newer != full && newer != sliding) ? ""
                                                             : newer == full ? ".full_attention"
                                                                             : ".sliding_attention");
  Refusals& refusals = reader.refusals();
  const Rope scaling = older ? read_rope(*older, "rope_scaling", context, refusals) : Rope{};
  const Rope parameters = newer ? read_rope(*newer, name, context, refusals) : Rope{};
  if (older && newer) {
    const auto same = [&](const char* key, double a, double b) {
      agree<double>(refusals, fmt::format("rope_scaling.{}", key), a, fmt::format("{}.{}", name, key), b);
    };
    agree<std::string>(refusals, "rope_scaling.rope_type", scaling.type.value_or("default"), name + ".rope_type",
                       parameters.type.value_or("default"));
    const RopeScaling &a = scaling.scaling, &b = parameters.scaling;
    same("factor", a.factor, b.factor);
    same("low_freq_factor", a.low_freq_factor, b.low_freq_factor);
    same("high_freq_factor", a.high_freq_factor, b.high_freq_factor);
    same("original_max_position_embeddings", static_cast<double>(a.original_max_position_embeddings),
         static_cast<double>(b.original_max_position_embeddings));
    same("beta_fast", a.beta_fast, b.beta_fast);
    same("beta_slow", a.beta_slow, b.beta_slow);
    same("attention_factor", a.attention_factor, b.attention_factor);
    same("truncate", a.truncate, b.truncate);
    same("llama_4_scaling_beta", a.llama_4_scaling_beta, b.llama_4_scaling_beta);
  } else if (newer && theta && parameters.scaling.type != RopeType::none) {
    // An old reader of this file would use theta without any scaling, and train another model.
    reader.refuse(
        name,
        fmt::format("it has type {}, but the older key rope_theta has no rope_scaling. Add rope_scaling or remove "
                    "rope_theta",
                    kRopeTypes[static_cast<int>(parameters.scaling.type)]));
  }
  read_partial(reader, family, scaling, parameters, model);
  model.rope_scaling = newer ? parameters.scaling : scaling.scaling;
  if (family.reads_beta && scaling.known && parameters.known && model.rope_scaling.type != RopeType::yarn)
    reader.refuse("rope_parameters", family.a_model() + " needs type yarn with llama_4_scaling_beta");
  if (!family.reads_beta && model.rope_scaling.llama_4_scaling_beta != 0)
    reader.refuse("llama_4_scaling_beta", family.a_model() + " does not read it. Remove it");
  const auto nested = agree(refusals, "rope_scaling.rope_theta", scaling.theta, name + ".rope_theta", parameters.theta);
  model.rope_theta =
      agree(refusals, "rope_theta", theta, newer ? name + ".rope_theta" : "rope_scaling.rope_theta", nested)
          .value_or(family.rope_theta);
  if (family.local_theta) read_local_rope(reader, family, sliding, context, model);
}

nlohmann::ordered_json rope_json(const RopeScaling& scaling) {
  Json rope = {{"rope_type", kRopeTypes[static_cast<int>(scaling.type)]}};
  if (scaling.type != RopeType::none) rope["factor"] = scaling.factor;
  if (scaling.type == RopeType::llama3) {
    rope["low_freq_factor"] = scaling.low_freq_factor;
    rope["high_freq_factor"] = scaling.high_freq_factor;
  }
  if (scaling.type == RopeType::llama3 || scaling.type == RopeType::yarn)
    rope["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  if (scaling.type == RopeType::yarn) {
    rope["beta_fast"] = scaling.beta_fast;
    rope["beta_slow"] = scaling.beta_slow;
    rope["attention_factor"] = scaling.attention_factor;
    rope["truncate"] = scaling.truncate;
    if (scaling.llama_4_scaling_beta != 0) rope["llama_4_scaling_beta"] = scaling.llama_4_scaling_beta;
  }
  return rope;
}

}  // namespace llmc::spec
