// A checkpoint opened for reading: what its texts say, and its tensors.
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
struct Tensor {
  std::string parameter;  // "model.norm.weight"
  std::string moment;     // what the optimizer keeps of it: "exp_avg"; empty: the weight itself
  const safetensors::Reader* reader;
  const safetensors::Entry* entry;

  /// The name in the file: "exp_avg.model.norm.weight".
  const std::string& name() const { return entry->name; }
  std::string file() const { return reader->path().filename().string(); }
  std::int64_t elements() const;
};

/// Whether a file of a checkpoint holds tensors, and whether they are weights.
bool holds_tensors(const std::string& file);
bool holds_weights(const std::string& file);

using Expected = std::map<std::string, std::vector<safetensors::TensorSpec>>;

/// The tensors that a checkpoint of a model holds for these buffers, by Tensor::moment: their names and shapes, in the
/// order of the forward pass.
Expected expected_tensors(const spec::Spec& spec, std::span<const SavedBuffer> buffers);

/// Those of the weights.
std::vector<safetensors::TensorSpec> expected_weights(const spec::Spec& spec);

/// The tensors of opened files: weights first, then moments, each in the order of `weights`, and by name what is not
/// among them.
std::vector<Tensor> tensors_of(const std::vector<std::unique_ptr<safetensors::Reader>>& readers,
                               const std::vector<safetensors::TensorSpec>& weights);

struct Contents {
  std::filesystem::path path;
  TrainState state;
  spec::Values values;  // of its spec.yaml
  std::vector<FileRecord> files;
  std::vector<std::unique_ptr<safetensors::Reader>> readers;
  std::vector<Tensor> tensors;
};

/// The checkpoint that a user named: itself, or the newest of a run folder whose sizes are right. Throws
/// Failure(checkpoint) where it is neither.
std::filesystem::path find_checkpoint(const std::filesystem::path& named);

/// The spec of a checkpoint's spec.yaml. Throws Failure(checkpoint).
spec::Values read_spec(const std::filesystem::path& checkpoint);

/// Opens a checkpoint of which manifest, sizes and headers are right; checksums are verify()'s. Throws
/// Failure(checkpoint) naming the file.
Contents open(const std::filesystem::path& checkpoint);

}  // namespace llmc::checkpoints
