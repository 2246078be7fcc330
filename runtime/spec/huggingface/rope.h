// RoPE in a config.json, in both of its spellings: rope_theta with rope_scaling, and rope_parameters of transformers 5.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "spec/huggingface/config_reader.h"
#include "spec/huggingface/families.h"
#include "spec/spec.h"

namespace llmc::spec {

/// Reads RoPE's keys into the model; refuses spellings that disagree. `context`: max_position_embeddings.
void read_rope(ConfigReader& reader, const Family& family, std::int64_t context, Model& model);

/// The type and its factors, as both spellings have them.
nlohmann::ordered_json rope_json(const RopeScaling& scaling);

}  // namespace llmc::spec
