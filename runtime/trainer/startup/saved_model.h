// Finds a folder with a model's weights, other than the run's own state, and checks that the model matches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "program/weight_form.h"
#include "spec/spec.h"

namespace llmc {

/// A checkpoint, or a Hugging Face folder with config.json and safetensors.
struct SavedModel {
  std::filesystem::path folder;
  std::filesystem::path run;        // run folder of the checkpoint; empty: none
  std::optional<TrainState> state;  // of a checkpoint
  WeightForm form = {};             // of the weights in other files than a checkpoint's
};

/// `folder`: a checkpoint, a Hugging Face folder, or a run folder, whose newest complete checkpoint is used; damaged
/// ones are reported to `log`. Throws Failure(checkpoint) if it is none of these; if its model differs from that of
/// `spec`, with both values of each key; or if llmc cannot train its model.
SavedModel find_weights(const std::filesystem::path& folder, const spec::Spec& spec, const Log& log);

/// Calls `use` with the same, which opens what it needs of the folder. A run may train at the same time: if its
/// retention removes the checkpoint before `use` returns, `use` is called again with a newer one.
void use_weights(const std::filesystem::path& folder, const spec::Spec& spec, const Log& log,
                 const std::function<void(const SavedModel&)>& use);

}  // namespace llmc
