// Runs the step in float64 from the initial weights on, with all of the interpreter's own tensors.
#pragma once

#include <map>
#include <utility>

#include "compiler/plan/plan.h"
#include "compiler/tools/float64/op_order.h"
#include "compiler/tools/float64/operands.h"

namespace llmc::float64 {

class Exact {
 public:
  explicit Exact(const plan::Plan& plan) : plan_(plan) {}

  /// Runs the op on this run's tensors. Host-written operands and constants are those of `trainer`, whose operands are
  /// in the order of the op.
  OpRun run(const ScheduledOp& launch, const OpRun& trainer, std::uint64_t seed);

  /// Returns one of the flat buffers, [elements].
  std::vector<double>& flat(graph::TensorId id);
  /// Returns the masters of all parameters, [elements].
  std::vector<double> masters();
  /// Figures that the step reports.
  const std::vector<std::byte>& records(graph::TensorId id) const { return own_.at({id, 0}).records; }

 private:
  OpValue value(const ScheduledOp& launch, graph::TensorId id, const OpValue& trainers);
  Owned& own(std::pair<graph::TensorId, std::int64_t> key, const Extent& extent);

  const plan::Plan& plan_;
  std::map<std::pair<graph::TensorId, std::int64_t>, Owned> own_;  // by tensor, and layer or boundary of layers
};

}  // namespace llmc::float64
