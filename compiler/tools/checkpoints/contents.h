// Opens a checkpoint for reading: its text files and its tensors.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "spec/values.h"

namespace llmc::checkpoints {

/// A tensor of a checkpoint's files.
struct CheckpointTensor {
  std::string parameter;  // "model.norm.weight"
  std::string moment;     // the optimizer's state of it: "exp_avg"; empty: the weight itself
  const safetensors::Reader* reader;
  const safetensors::Entry* entry;

  /// Returns the name in the file: "exp_avg.model.norm.weight".
  const std::string& name() const { return entry->name; }
  std::string file() const { return reader->path().filename().string(); }
  std::int64_t elements() const;
};

/// Whether a file of a checkpoint holds tensors, or weights.
bool holds_tensors(const std::string& file);
bool holds_weights(const std::string& file);

using Expected = std::map<std::string, std::vector<safetensors::TensorSpec>>;

/// The tensors that a checkpoint of a model holds for these buffers, by CheckpointTensor::moment: their names and
/// shapes, in the order of the forward pass.
Expected expected_tensors(const spec::Spec& spec, std::span<const SavedBuffer> buffers);

/// Those of the weights.
std::vector<safetensors::TensorSpec> expected_weights(const spec::Spec& spec);

/// Returns the tensors of opened files: weights first, then moments, each in the order of `weights`; others follow by
/// name.
std::vector<CheckpointTensor> tensors_of(const std::vector<std::unique_ptr<safetensors::Reader>>& readers,
                                         const std::vector<safetensors::TensorSpec>& weights);

struct Contents {
  std::filesystem::path path;
  TrainState state;
  spec::Values values;  // of its spec.yaml
  std::vector<FileRecord> files;
  std::vector<std::unique_ptr<safetensors::Reader>> readers;
  std::vector<CheckpointTensor> tensors;
};

/// Returns the checkpoint that a user named: `named` itself, or the newest one of a run folder with correct sizes.
/// Newer ones of wrong sizes are reported to `log`. Throws Failure(checkpoint) if `named` is neither.
std::filesystem::path find_checkpoint(const std::filesystem::path& named, const Log& log);

/// Returns the spec of a checkpoint's spec.yaml. Throws Failure(checkpoint).
spec::Values read_spec(const std::filesystem::path& checkpoint);

/// Opens a checkpoint after checking its manifest, sizes and headers; inspect_checkpoint() checks checksums. Throws
/// Failure(checkpoint) naming the file.
Contents open(const std::filesystem::path& checkpoint);

}  // namespace llmc::checkpoints
