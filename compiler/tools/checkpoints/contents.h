// Opens a checkpoint for reading: its text files and its tensors.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
  std::string moment;     // "exp_avg": optimizer state of the parameter; empty: the weight itself
  const safetensors::Reader* reader;
  const safetensors::Entry* entry;

  /// Returns the name in the file: "exp_avg.model.norm.weight".
  const std::string& name() const { return entry->name; }
  std::string file() const { return reader->path().filename().string(); }
  std::int64_t elements() const;
};

/// The numbers of a tensor, read in order. Codes of moments are those that they stand for.
class TensorNumbers {
 public:
  /// `tensors`: of the same checkpoint. The tensor and its reader live longer.
  TensorNumbers(const CheckpointTensor& tensor, std::span<const CheckpointTensor> tensors);

  /// Whether the tensor's elements are codes.
  bool has_codes() const { return codes_.has_value(); }
  /// Reads as many numbers as `numbers` has, and their bytes. Throws Failure(checkpoint) as Reader::read.
  void next(std::span<float> numbers, std::vector<std::byte>& bytes);

 private:
  const CheckpointTensor& tensor_;
  std::optional<DType> codes_;
  std::vector<float> scales_;
  std::int64_t at_ = 0;
};

/// Returns whether a file of a checkpoint contains tensors, or weights.
bool holds_tensors(const std::string& file);
bool holds_weights(const std::string& file);

using Expected = std::map<std::string, std::vector<safetensors::TensorSpec>>;

/// Returns names and shapes of the tensors that a checkpoint contains for these buffers, by CheckpointTensor::moment
/// and in the order of the forward pass.
Expected expected_tensors(const spec::Spec& spec, std::span<const SavedBuffer> buffers);

/// Same for the weights only.
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
/// Newer checkpoints with wrong sizes are reported to `log`. Throws Failure(checkpoint) if `named` is neither.
std::filesystem::path find_checkpoint(const std::filesystem::path& named, const Log& log);

/// Calls `use` with the checkpoints that a user named, each found by find_checkpoint(). If `use` fails because the
/// trainer of a run folder has removed its checkpoint meanwhile, repeats this with the newest ones.
void with_checkpoints(const std::vector<std::filesystem::path>& named, const Log& log,
                      const std::function<void(const std::vector<std::filesystem::path>&)>& use);

/// Returns the spec of a checkpoint's spec.yaml. Throws Failure(checkpoint).
spec::Values read_spec(const std::filesystem::path& checkpoint);

/// Opens a checkpoint after checking its manifest, sizes and headers; inspect_checkpoint() checks checksums. Throws
/// Failure(checkpoint) naming the file.
Contents open(const std::filesystem::path& checkpoint);

}  // namespace llmc::checkpoints
