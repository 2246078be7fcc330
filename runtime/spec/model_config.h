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
  /// Returns whether `key`, or a key of its object, was added.
  bool has(const std::string& key) const;
  /// Throws Failure(spec) with all of them.
  void throw_if_any() const;

 private:
  std::string name_;
  std::vector<std::string> list_;
  std::vector<std::string> keys_;
};

struct ModelConfig {
  Model model;
  std::int64_t context = 0;                 // max_position_embeddings
  std::optional<double> initializer_range;  // as in the file
  WeightForm weights;                       // in the files beside it
  std::vector<std::string> notes;           // keys without an effect here that a reader may expect to have one
};

/// Reads the model of a config.json. `name`: of the file, for messages. Throws Failure(spec) naming every key that
/// differs between the two schemas in the file, or for which llmc could not train exactly this model: another
/// model_type or activation, a window or biases for a model_type without them, experts, RoPE types that llmc does not
/// have, partial rotary for a model_type without it, quantisation, or an unknown key. Dropout becomes a note.
ModelConfig read_model_config(const std::string& text, const std::string& name);

/// Adds these keys to `refusals` instead of throwing. Values that were refused are then defaults, or 1 for a size.
/// Throws Failure(spec) where the file has no model that llmc knows.
ModelConfig read_model_config(const std::string& text, const std::string& name, Refusals& refusals);

/// Names the sizes for which transformers 5 refuses to load the model from a config.json; empty if it loads.
std::string not_loaded(const Model& model);

}  // namespace llmc::spec
