// Writes the exact run's tensors to files in the layout of a trainer's trace, to compare the interpreter with another
// program.
#pragma once

#include <filesystem>
#include <vector>

#include "compiler/tools/float64/exact.h"
#include "compiler/tools/float64/op_order.h"

namespace llmc::float64 {

/// Writes DIR/step-N for each step N: weights, gradients (before clipping) and updated.safetensors, F64 under Hugging
/// Face names; tokens.safetensors with inputs and targets, I32 [micro-batches, micro_batch, sequence]; summary.json.
/// Throws Failure(checkpoint) if a file cannot be written.
class DumpWriter {
 public:
  /// An empty `folder`: nothing is written.
  DumpWriter(const plan::Plan& plan, std::filesystem::path folder) : plan_(plan), folder_(std::move(folder)) {}

  /// Call with all gradients of a step, before any is used.
  void gradients(const ScheduledOp& launch, Exact& exact);
  /// Call with the operands that the host has written for a launch.
  void host(const ScheduledOp& launch, const OpRun& trainer);
  /// Call after the update of all weights.
  void updated(const ScheduledOp& launch, Exact& exact);

 private:
  std::filesystem::path step(const ScheduledOp& launch) const;
  void parameters(const std::filesystem::path& file, const std::vector<double>& flat) const;
  void tokens(const std::filesystem::path& file);

  const plan::Plan& plan_;
  std::filesystem::path folder_;
  std::vector<std::int32_t> inputs_, targets_;
};

}  // namespace llmc::float64
