// Reads the model of a Hugging Face config.json, in both of its schemas.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/weight_form.h"
#include "spec/spec.h"

namespace llmc::spec {

/// Collects everything that keeps llmc from training a model.
class Refusals {
 public:
  /// `name`: of the file, for the message.
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
  std::optional<double> initializer_range;  // as in the file
  WeightForm weights;                       // in the files beside it
};

/// Reads the model of a config.json. `name`: of the file, for messages. Throws Failure(spec) naming every key that
/// differs between the two schemas in the file, or for which llmc could not train exactly this model: another
/// model_type or activation, a window or biases for a model_type without them, experts, RoPE types that llmc does not
/// have, partial rotary for a model_type without it, dropout, quantisation, or an unknown key.
ModelConfig read_model_config(const std::string& text, const std::string& name);

/// Names the sizes for which transformers 5 refuses to load the model from a config.json; empty if it loads.
std::string not_loaded(const Model& model);

}  // namespace llmc::spec
