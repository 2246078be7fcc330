// Traces for `llmc diff` and the reference: weights, tokens, gradients and loss of each step, in safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/parameter_stream.h"
#include "device/types.h"
#include "files/atomic_directory.h"
#include "program/parameters.h"

namespace llmc {

/// Writes DIR/step-N/ for each step: begin_step, add_micro_batch for each micro-batch, finish_step. A directory appears
/// when its step is finished. All functions throw Failure(checkpoint) when a file cannot be written.
class TraceWriter {
 public:
  /// `micro_batch` sequences of `sequence_length` tokens a micro-batch. `parameters` must outlive the writer. An empty
  /// `directory`: another rank writes, and all functions do nothing.
  TraceWriter(const std::filesystem::path& directory, std::span<const ParameterInfo> parameters,
              std::int64_t micro_batch, std::int64_t sequence_length);

  /// weights.safetensors. `masters` reads the flat buffer as it is before the step. A step-N that exists already, from
  /// another run, is a Failure(checkpoint).
  void begin_step(std::int64_t step, const FlatSource& masters);

  /// Both [micro_batch, sequence_length]; targets of -1 are ignored positions.
  void add_micro_batch(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets);

  /// tokens.safetensors, gradients.safetensors and summary.json. `gradients` reads the flat buffer, before clipping.
  void finish_step(const FlatSource& gradients, const StepResults& results, float lr);

 private:
  std::filesystem::path directory_;
  std::vector<ParameterInfo> stored_;
  std::int64_t micro_batch_, sequence_length_;
  std::unique_ptr<AtomicDirectory> step_;  // null between steps
  std::vector<std::int32_t> inputs_, targets_;
};

/// {"loss":...,"grad_norm":...,"lr":...,"top1":...,"lse_mean":...,"lse_max":...,"entropy":...}: the shortest digits
/// that read back as the same double; null when not finite.
std::string format_summary(const StepResults& results, float lr);

}  // namespace llmc
