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

namespace llmc::float64 {

enum class TensorClass { activations, activation_gradients, loss, gradients, parameters, moments };
inline constexpr std::size_t kTensorClasses = static_cast<std::size_t>(TensorClass::moments) + 1;
const char* name_of(TensorClass tensors);

/// Returns the largest allowed error of a class of tensors relative to the whole run in float64: for each tensor the L2
/// norm of the difference over the norm; for a step's numbers the difference over the number.
double bound_of(TensorClass tensors, const spec::Spec& spec);

struct ClassError {
  double worst = 0;
  std::string where;  // "step 1, layer 0: attention_out"
};

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
  bool good(const spec::Spec& spec) const;
};

/// Folder for a reference run's tensors: DIR/step-N/{weights,gradients,updated,tokens}.safetensors and summary.json.
struct TensorDump {
  std::filesystem::path folder;  // empty: not written
};

/// Verifies a trainer. `argv`: a trainer of `plan` with probes, and the arguments that make it train `steps` steps.
/// Throws Failure with the trainer's output if it ends early; Failure(Exit::numerics) if it does not run the plan's ops
/// in their order.
Verdict verify_trainer(const plan::Plan& plan, const std::vector<std::string>& argv, const std::filesystem::path& log,
                       std::int64_t steps, const TensorDump& dump,
                       const std::function<void(const std::string&)>& progress);

}  // namespace llmc::float64
