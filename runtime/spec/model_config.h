// The model of a Hugging Face config.json, in both of its schemas.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/spec.h"

namespace llmc::spec {

/// Everything that keeps llmc from training a model, found in one reading.
class Refusals {
 public:
  /// `name`: what the file is called in the message.
  explicit Refusals(std::string name) : name_(std::move(name)) {}
  void add(const std::string& key, const std::string& why);
  /// Throws Failure(spec) with all of them.
  void throw_if_any() const;

 private:
  std::string name_;
  std::vector<std::string> list_;
};

struct ModelConfig {
  Model model;
  std::int64_t context = 0;                 // max_position_embeddings
  std::optional<double> initializer_range;  // as it stands there
};

/// The model of a config.json. `name`: what messages call the file. Throws Failure(spec) naming every key that
/// disagrees between the two schemas in the file, or for which llmc could not train exactly this model: another
/// model_type or activation, a window where the model_type has none, experts, RoPE types other than default and llama3,
/// partial rotary, dropout, quantisation, or a key whose meaning is not known.
ModelConfig read_model_config(const std::string& text, const std::string& name);

/// Names the sizes for which transformers 5 refuses to load the model from a config.json; empty where it loads it.
std::string not_loaded(const Model& model);

}  // namespace llmc::spec
