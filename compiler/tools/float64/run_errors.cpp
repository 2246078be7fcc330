#include "compiler/tools/float64/run_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "device/types.h"

namespace llmc::float64 {

using namespace graph;

namespace {

/// Ratio to the errors of the run with errors of rounding up to which the trainer's are rounding. Those are drawn from
/// all that the bounds of ops allow, and are some times larger than a kernel's; that the errors of a tensor of a few
/// elements cancel by chance is what remains.
constexpr double kOfRounding = 8;

Matrix part(const Matrix& flat, const plan::Slice& slice) {
  return {flat.data + slice.offset, slice.rows, slice.cols, slice.pitch};
}

/// Applies a function to the tensor of each run.
OfRuns<Matrix> each(const OfRuns<Matrix>& of, const auto& function) {
  OfRuns<Matrix> result{function(of.exact), function(of.found), {}};
  if (of.rounded) result.rounded = function(*of.rounded);
  return result;
}

/// Ratio of a difference to what it is a part of. There may be nothing: weights whose rate is 0 have no update.
double ratio(double difference, double whole) { return difference == 0 ? 0 : difference / whole; }

/// Norm over norm.
double distance(const Matrix& exact, const Matrix& other) {
  Distance distance;
  distance.add(exact, other);
  return distance.relative();
}

}  // namespace

const char* name_of(TensorClass tensors) {
  constexpr const char* kNames[] = {"activations", "their gradients", "loss", "gradients", "parameters", "moments"};
  return kNames[static_cast<std::size_t>(tensors)];
}

double bound_of(TensorClass tensors, const spec::Spec& spec) {
  struct Bounds {
    double fp32, bf16x3, tf32, fp16, bf16, fp8;
  };
  constexpr Bounds kBounds[] = {{1e-5, 1e-4, 1e-2, 5e-3, 8e-2, 3e-1}, {2e-5, 2e-4, 2e-2, 1e-2, 2e-1, 5e-1},
                                {1e-6, 1e-5, 5e-3, 5e-4, 1e-2, 2e-2}, {2e-5, 2e-4, 2e-2, 1e-2, 3e-1, 6e-1},
                                {2e-3, 2e-2, 2e-1, 1e-1, 4e-1, 9e-1}, {4e-5, 4e-4, 2e-2, 2e-2, 6e-1, 9e-1}};
  const Bounds& bounds = kBounds[static_cast<std::size_t>(tensors)];
  if (spec.matmul == spec::Matmul::bf16x3) return bounds.bf16x3;
  if (spec.matmul == spec::Matmul::tf32) return bounds.tf32;
  if (spec.has_fp8_products()) return bounds.fp8;
  if (spec.compute == DType::f16) return bounds.fp16;
  return spec.compute == DType::bf16 ? bounds.bf16 : bounds.fp32;
}

RunErrors::RunErrors(const plan::Plan& plan) : plan_(plan) {
  for (std::size_t i = 0; i < kTensorClasses; ++i) classes_[i].bound = bound_of(static_cast<TensorClass>(i), plan.spec);
}

void RunErrors::take(TensorClass tensors, double error, double of_rounding, const std::function<std::string()>& where) {
  ClassError& of = classes_[static_cast<std::size_t>(tensors)];
  const double bound = std::max(bound_of(tensors, plan_.spec), kOfRounding * of_rounding);
  if (error / bound > of.worst / of.bound || of.where.empty() || std::isnan(error)) of = {error, bound, where()};
}

void RunErrors::take(TensorClass tensors, const OfRuns<Matrix>& of, const std::function<std::string()>& where) {
  take(tensors, distance(of.exact, of.found), of.rounded ? distance(of.exact, *of.rounded) : 0, where);
}

void RunErrors::take_figures(const ScheduledOp& launch, const OfRuns<StepResults>& of) {
  const auto take_figure = [&](const char* name, const auto& figure) {
    const double exact = figure(of.exact);
    const auto error = [&](const StepResults& other) {
      return ratio(std::abs(figure(other) - exact), std::abs(exact));
    };
    take(TensorClass::loss, error(of.found), of.rounded ? error(*of.rounded) : 0,
         [&] { return fmt::format("step {}, {}", launch.step, name); });
  };
  take_figure("loss", [](const StepResults& r) { return r.loss; });
  take_figure("log-sum-exp", [](const StepResults& r) { return r.lse; });
  take_figure("entropy", [](const StepResults& r) { return r.entropy; });
  take_figure("gradient norm", [](const StepResults& r) { return static_cast<double>(r.grad_norm); });
}

/// Takes a flat buffer, tensor by tensor of a checkpoint.
void RunErrors::take_flat(const ScheduledOp& launch, TensorClass tensors, const std::string& what,
                          const OfRuns<Matrix>& of, GroupSet groups) {
  if (launch.step == 0) return;
  for (const plan::Slice& slice : plan_.parameters.slices)
    if (holds(groups, slice.group) && !vanished_.contains(slice.offset))
      take(tensors, each(of, [&](const Matrix& flat) { return part(flat, slice); }),
           [&] { return fmt::format("step {}, {} of {}", launch.step, what, slice.name); });
}

void RunErrors::take_moments(const ScheduledOp& launch, const Tensor& t, const OfRuns<Matrix>& of) {
  const std::int64_t begin = plan_.parameters.buckets[plan_.parameters.buckets_of(t.groups).first].offset;
  const auto moved = [begin](const Matrix& m) { return Matrix{m.data - begin, m.rows, m.cols, m.pitch}; };
  take_flat(launch, TensorClass::moments, t.name, each(of, moved), t.groups);
}

void RunErrors::take_weights(const ScheduledOp& launch, bool split, const OfRuns<Matrix>& of) {
  if (launch.step == 0) return;
  const GroupSet others = plan_.graph.at(plan_.graph.host(Use::masters)).groups;
  Distance found, rounded, update;
  bool some = false;  // norms without weights leave no others
  for (const plan::Slice& slice : plan_.parameters.slices) {
    if (holds(others, slice.group) == split || vanished_.contains(slice.offset)) continue;
    some = true;
    found.add(part(of.exact, slice), part(of.found, slice));
    if (of.rounded) rounded.add(part(of.exact, slice), part(*of.rounded, slice));
    const auto all = static_cast<std::int64_t>(before_.size());
    update.add(part(of.exact, slice), part({before_.data(), 1, all, all}, slice));
  }
  if (some)
    take(TensorClass::parameters, ratio(found.difference(), update.difference()),
         ratio(rounded.difference(), update.difference()),
         [&] { return fmt::format("step {}, of the update of all", launch.step); });
}

void RunErrors::take_gradients(const ScheduledOp& launch, const OfRuns<Matrix>& of, std::vector<double> masters) {
  before_ = std::move(masters);
  find_vanished(of.exact);
  take_flat(launch, TensorClass::gradients, "gradient", of, kAllGroups);
}

/// Finds the tensors whose gradient is 0 but for float64's rounding, and whose updates are therefore arbitrary: the
/// bias of k without RoPE, which adds the same to all scores of a query.
void RunErrors::find_vanished(const Matrix& exact) {
  constexpr double kRounding = 1e-12;
  const auto size = [&](const plan::Slice& slice) {
    Distance distance;
    distance.add(part(exact, slice), part(exact, slice));
    return distance.size();
  };
  double largest = 0;
  for (const plan::Slice& slice : plan_.parameters.slices) largest = std::max(largest, size(slice));
  vanished_.clear();
  for (const plan::Slice& slice : plan_.parameters.slices)
    if (size(slice) < kRounding * largest) vanished_.insert(slice.offset);
}

}  // namespace llmc::float64
