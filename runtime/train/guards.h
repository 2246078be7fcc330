// Decides which updates a run skips, and when it has skipped too many: docs/reference/guards.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/guard_state.h"
#include "data/order/sample_id.h"
#include "device/types.h"
#include "spec/spec.h"

namespace llmc {

/// Median of the numbers, and 1.4826 times the median of their distances from it. For normally distributed numbers that
/// is their standard deviation, and a few outliers hardly change it. At least one number, all finite.
struct Spread {
  double median, spread;
};
Spread spread_of(std::span<const double> values);

/// The device skips a step's update above these; infinite: no limit.
struct StepLimits {
  float loss, grad_norm;
};

/// Judges steps by the steps before them. All ranks see the same results, and so agree. Steps count from 1, as in
/// metrics.jsonl.
class Guard {
 public:
  /// Smallest spread of log(1 + loss) and log(norm): a window of nearly equal numbers would make every other one an
  /// outlier. Largest spread of norms: a window of rising or falling norms has a wide spread that says nothing of
  /// outliers.
  static constexpr double kLossFloor = 0.02, kNormFloor = 0.1, kNormCeiling = 0.2;

  /// `clip_norm`: gradient norms up to it are never refused. `state`: from the checkpoint that the run resumes from.
  Guard(const spec::Guards& values, double clip_norm, GuardState state);

  /// Computed in the logarithm, because norms of few tokens have a long tail: expm1(median + guards.loss * spread) of
  /// log(1 + loss), exp(median + guards.grad_norm * spread) of log(norm). Uses the last guards.window applied steps up
  /// to `step` - 2: if the host runs ahead, the results of step - 1 are unknown when a step is sent, and all targets
  /// must have the same limits. Infinite while fewer than guards.judge_after are known. Steps up to `step` - 2 must
  /// have been observed.
  StepLimits limits(std::int64_t step) const;

  /// Takes the results of the next step, which was sent with `limits`. `samples`: of a skipped step, name_samples().
  /// `where`: with several ranks, the origin of a non-finite value, such as "the loss on rank 1 (host b)". Returns a
  /// warning, empty if the update was applied, or skipped because the gradients' scale was too large.
  std::string observe(std::int64_t step, const StepResults& results, const StepLimits& limits,
                      const std::string& samples, const std::string& where = "");

  /// Updates skipped since the last applied one.
  std::int64_t in_a_row() const;
  /// Returns why the run must not continue; empty if it may.
  std::string exhausted() const;
  /// Advice for that case; names the keys.
  std::string advice() const;
  /// First of the skipped steps because of which the run must not continue.
  std::int64_t first_skipped() const;

  /// Steps whose newest earlier checkpoint a rollback may need.
  std::vector<std::int64_t> may_go_back_before() const;

  const GuardState& state() const { return state_; }

 private:
  /// The last guards.window of the values of applied steps up to `step` - 2, by which the step is judged.
  std::span<const double> judging(const std::vector<double>& values, std::int64_t step) const;
  std::int64_t recent() const;

  spec::Guards values_;
  double clip_norm_;
  GuardState state_;
  std::int64_t step_ = 0;    // last observed step
  std::string first_where_;  // of the skipped updates in a row
};

/// Whether losses before and after these keys change must not be compared.
bool change_losses(std::span<const std::string> keys);

/// State for losses that are not compared with those before: without the window and the means of the plateau. What was
/// skipped and told is kept.
GuardState with_other_losses(GuardState state);

/// Detects a loss that no longer changes.
class FrozenLoss {
 public:
  /// Warns once after `steps` (0: never) losses in a row whose largest and smallest differ by at most `change` of the
  /// largest.
  FrozenLoss(std::int64_t steps, double change) : steps_(steps), change_(change) {}

  /// Returns a warning, or an empty string.
  std::string observe(std::int64_t step, double loss);

 private:
  std::int64_t steps_, count_ = 0;
  double change_, smallest_ = 0, largest_ = 0;
  bool told_ = false;
};

/// "loss", "grad_norm", "overflow" or "not_finite", as in metrics.jsonl; empty if the update was applied.
const char* skip_reason(int skipped);

/// Samples of a skipped step named in a warning; metrics.jsonl has all of them.
inline constexpr std::size_t kNamedSamples = 8;

/// "samples 12, 7 and 14 more", "samples web:12, code:7 and 14 more"
std::string name_samples(std::span<const SampleId> samples, const SampleNames& names);

}  // namespace llmc
