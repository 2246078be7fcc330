// Runs a trainer op by op against the interpreter: each op alone on the trainer's inputs, and next to it the whole run
// in float64.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/tools/float64/compare.h"
#include "compiler/tools/float64/op_order.h"
#include "compiler/tools/float64/run_errors.h"

namespace llmc::float64 {

enum class Fault {
  result,      // of the op is beyond its bound
  host,        // has written another value than the op should read
  overwritten  // by another op, before this one reads it
};

/// The first fault: of an op's result, or of a tensor that it reads.
struct Mismatch {
  ScheduledOp launch;
  graph::TensorId tensor = graph::kNone;
  Worst worst;
  Fault fault = Fault::result;
};

struct Verdict {
  std::array<ClassError, kTensorClasses> classes = {};
  std::int64_t ops = 0;              // compared
  double worst_of_bound = 0;         // of all ops, in units of each one's bound
  ScheduledOp worst;                 // its launch
  std::optional<Mismatch> mismatch;  // the first
  bool good() const;
  /// Whether only classes of tensors are beyond their bounds, so that errors of rounding may explain it.
  bool in_doubt() const { return !mismatch && !good(); }
};

/// Folder for a reference run's tensors: DIR/step-N/{weights,gradients,updated,tokens}.safetensors and summary.json.
struct TensorDump {
  std::filesystem::path folder;  // empty: not written
};

/// Verifies a trainer. `argv`: a trainer of `plan` with probes, and the arguments that make it train `steps` steps.
/// Throws Failure with the trainer's output if it ends early; Failure(Exit::numerics) if it does not run the plan's ops
/// in their order. `draw`: beside another run in float64, whose errors of rounding, those of that draw, show how much
/// of them the model magnifies, and widen the bounds of classes.
Verdict verify_trainer(const plan::Plan& plan, const std::vector<std::string>& argv, const std::filesystem::path& log,
                       std::int64_t steps, const TensorDump& dump, std::optional<int> draw,
                       const std::function<void(const std::string&)>& progress);

}  // namespace llmc::float64
