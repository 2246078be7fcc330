// Reads and writes Hugging Face's config.json of a family (runtime/spec/huggingface/families.h), in both of its schemas
// (transformers 4 and 5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/spec/documentation.h"
#include "program/dtype.h"
#include "spec/spec.h"

namespace llmc::spec {

/// Fields of config.json that have no key in a spec.
struct StoredModel {
  DType dtype = DType::f32;              // f32, bf16 or f16, of the weights
  std::optional<std::int32_t> eos = {};  // the token that ends a document, where a tokenizer is known
};

/// config.json of the family that computes the model. If none does, model_type is llmc, which no version of
/// transformers loads. RoPE stands in it twice (`rope_theta` with `rope_scaling`, and `rope_parameters` of transformers
/// 5), and so does the dtype: a reader of one schema falls back to defaults in silence when it finds only the other.
std::string config_json(const Spec& spec, const StoredModel& stored = {});

/// A spec for the model of a config.json.
struct ImportedSpec {
  std::string text;
  std::vector<std::string> notes;  // keys without an effect that a reader may expect to have one; also in the text
};

/// A spec for the model of a config.json, with the run left to defaults and commented. `name`: what the run is
/// called, as near as a run's name can be. Throws Failure(Exit::spec) as read_model_config(), and for sizes that no
/// spec may have, naming all of them at once.
ImportedSpec from_huggingface(const std::string& config_json_text, const std::string& name, const NewData& data = {});

}  // namespace llmc::spec
