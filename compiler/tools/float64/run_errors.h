// Compares the tensors of a trainer's whole run with those of the run in float64, class by class.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/tools/float64/compare.h"
#include "compiler/tools/float64/op_order.h"
#include "device/types.h"

namespace llmc::float64 {

enum class TensorClass { activations, activation_gradients, loss, gradients, parameters, moments };
inline constexpr std::size_t kTensorClasses = static_cast<std::size_t>(TensorClass::moments) + 1;
const char* name_of(TensorClass tensors);

/// Returns the largest allowed error of a class of tensors relative to the whole run in float64: for each tensor the L2
/// norm of the difference over the norm; for a step's numbers the difference over the number.
double bound_of(TensorClass tensors, const spec::Spec& spec);

/// The tensor of a class whose error is the largest part of its bound.
struct ClassError {
  double worst = 0, bound = 0;
  std::string where;  // "step 1, layer 0: attention_out"
};

/// A tensor of the run in float64, of the trainer, and of the run in float64 with errors of rounding, if there is one.
template <class T>
struct OfRuns {
  T exact, found;
  std::optional<T> rounded;
};

class RunErrors {
 public:
  explicit RunErrors(const plan::Plan& plan);

  const std::array<ClassError, kTensorClasses>& classes() const { return classes_; }

  void take(TensorClass tensors, const OfRuns<Matrix>& of, const std::function<std::string()>& where);
  /// Takes the figures that the step of `launch` reports when it is done.
  void take_figures(const ScheduledOp& launch, const OfRuns<StepResults>& of);
  /// Takes all gradients of a step before they are used; `masters`: the weights then.
  void take_gradients(const ScheduledOp& launch, const OfRuns<Matrix>& of, std::vector<double> masters);
  /// Takes what the optimizer keeps of its groups' parameters.
  void take_moments(const ScheduledOp& launch, const graph::Tensor& t, const OfRuns<Matrix>& of);
  /// Takes all weights at once, relative to their change in the step. `split`: those whose masters are; else the
  /// others.
  void take_weights(const ScheduledOp& launch, bool split, const OfRuns<Matrix>& of);

 private:
  void take(TensorClass tensors, double error, double of_rounding, const std::function<std::string()>& where);
  void take_flat(const ScheduledOp& launch, TensorClass tensors, const std::string& what, const OfRuns<Matrix>& of,
                 GroupSet groups);
  void find_vanished(const Matrix& exact);

  const plan::Plan& plan_;
  std::array<ClassError, kTensorClasses> classes_;
  std::vector<double> before_;       // weights at the start of the step
  std::set<std::int64_t> vanished_;  // offsets of tensors
};

}  // namespace llmc::float64
