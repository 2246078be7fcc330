// Writes traces, to compare a trainer with the PyTorch reference: weights, tokens, gradients and loss of each step, as
// safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "checkpoint/parameter_stream.h"
#include "device/types.h"
#include "files/atomic_directory.h"
#include "program/outputs.h"
#include "program/parameters.h"

namespace llmc {

/// Writes DIR/step-N/ for each step: begin_step, then add_micro_batch per micro-batch, add_gradients, finish_step. The
/// directory appears when the step is finished. All functions throw Failure(checkpoint) if a file cannot be written.
class TraceWriter {
 public:
  /// A micro-batch is `micro_batch` sequences of `sequence_length` tokens. `parameters` must outlive the writer. An
  /// empty `directory` means that another rank writes, and all functions do nothing. `first`: step that the start
  /// begins with.
  TraceWriter(const std::filesystem::path& directory, std::span<const ParameterInfo> parameters,
              std::int64_t micro_batch, std::int64_t sequence_length, std::int64_t first);

  /// Writes weights.safetensors. `masters` reads the flat buffer before the step. A step that a rollback or a resume
  /// repeats replaces its directory. Any other that exists is a Failure(checkpoint).
  void begin_step(std::int64_t step, const FlatSource& masters);

  /// Both [micro_batch, sequence_length]; targets of -1 are ignored positions.
  void add_micro_batch(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets);

  /// Writes gradients.safetensors. `gradients` reads the flat buffer before the optimizer's step, and so before
  /// clipping.
  void add_gradients(const FlatSource& gradients);

  /// Writes tokens.safetensors and summary.json.
  void finish_step(const StepResults& results, std::span<const Figure> figures, float lr);

 private:
  std::filesystem::path directory_;
  std::vector<ParameterInfo> stored_;
  std::int64_t micro_batch_, sequence_length_, first_;
  std::unique_ptr<AtomicDirectory> step_;  // null between steps
  std::int64_t number_ = 0;                // of the step
  std::set<std::int64_t> written_;         // steps of this writer
  std::vector<std::int32_t> inputs_, targets_;
};

/// Throws Failure(checkpoint) if `directory` has one of steps [first, stop) that a start from step `first` must not
/// replace. An empty `directory`: no trace.
void check_trace(const std::filesystem::path& directory, std::int64_t first, std::int64_t stop);

/// {"loss":...,"grad_norm":...,"lr":...,"top1":...,"lse_mean":...,"lse_max":...,"entropy":...}, with the shortest
/// digits that read back as the same double; null if not finite.
std::string format_summary(const StepResults& results, std::span<const Figure> figures, float lr);

}  // namespace llmc
