// A folder with a model's weights, in place of a run's own state: which folder is meant, and whether its model fits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "spec/spec.h"

namespace llmc {

/// A checkpoint, or a Hugging Face folder: config.json and safetensors.
struct SavedModel {
  std::filesystem::path folder;
  std::filesystem::path run;        // the run folder that a checkpoint lies in; empty: in none
  std::optional<TrainState> state;  // of a checkpoint
};

/// `folder`: one of them, or a run folder, of which the newest whole checkpoint is taken; damaged ones are named to
/// `log`. Throws Failure(checkpoint) where it is none; where its model is another than that of `spec`, with both values
/// of each key; where it is none that llmc trains.
SavedModel find_weights(const std::filesystem::path& folder, const spec::Spec& spec, const Log& log);

}  // namespace llmc
