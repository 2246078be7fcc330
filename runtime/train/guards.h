// Which updates a run refuses, and when it has refused too many: docs/reference/guards.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/guard_state.h"
#include "device/types.h"
#include "spec/spec.h"

namespace llmc {

/// The median of the numbers, and 1.4826 times the median of their distances from it: for normal numbers their standard
/// deviation, and however far a few of them lie, about the same. At least one number, all finite.
struct Spread {
  double median, spread;
};
Spread spread_of(std::span<const double> values);

/// Above these the device skips a step's update; infinite: nothing is above.
struct StepLimits {
  float loss, grad_norm;
};

/// Judges steps by those before them. Ranks see the same results, and so agree. Steps count from 1, as in
/// metrics.jsonl.
class Guard {
 public:
  /// The smallest spread of log(1 + loss) and of log(norm): a window of nearly equal numbers would take any other for
  /// an outlier. The largest of norms: a window in which they rise or fall has a wide one, which says nothing of
  /// outliers.
  static constexpr double kLossFloor = 0.02, kNormFloor = 0.1, kNormCeiling = 0.2;

  /// `clip_norm`: a gradient norm up to it is never too large. `state`: of the checkpoint that the run goes on from.
  Guard(const spec::Guards& values, double clip_norm, GuardState state);

  /// In the logarithm, since the norms of few tokens have a long tail: expm1(median + guards.loss * spread) of
  /// log(1 + loss), exp(median + guards.grad_norm * spread) of log(norm). From the last guards.window applied steps up
  /// to `step` - 2: where the host runs ahead, the results of step - 1 are not there yet when a step is sent, and every
  /// target is to have the same limits. Infinite while fewer than guards.judge_after are known. Steps up to `step` - 2
  /// have been observed.
  StepLimits limits(std::int64_t step) const;

  /// Takes the results of the next step, sent with `limits`. `where`: of several ranks, those where what is not finite
  /// began: "the loss on rank 1 (host b)". Returns what to warn of, empty when the update was applied.
  std::string observe(std::int64_t step, const StepResults& results, const StepLimits& limits,
                      std::span<const std::uint64_t> samples, const std::string& where = "");

  /// Skipped updates up to now, without one that was applied between them.
  std::int64_t in_a_row() const;
  /// Why the run may not go on as it is; empty where it may.
  std::string exhausted() const;
  /// What to do then; names the keys.
  std::string advice() const;
  /// The first of the skipped steps for which the run may not go on.
  std::int64_t first_skipped() const;

  /// Steps before which the newest checkpoint may be wanted for a rollback.
  std::vector<std::int64_t> may_go_back_before() const;

  const GuardState& state() const { return state_; }

 private:
  std::int64_t recent() const;

  spec::Guards values_;
  double clip_norm_;
  GuardState state_;
  std::int64_t step_ = 0;    // the last that was observed
  std::string first_where_;  // of those in a row
};

/// Notices losses that stand still.
class FrozenLoss {
 public:
  /// After `steps` (0: never) losses in a row whose largest and smallest differ by at most `change` of the largest,
  /// once.
  FrozenLoss(std::int64_t steps, double change) : steps_(steps), change_(change) {}

  /// What to warn of, or empty.
  std::string observe(std::int64_t step, double loss);

 private:
  std::int64_t steps_, count_ = 0;
  double change_, smallest_ = 0, largest_ = 0;
  bool told_ = false;
};

/// "loss", "grad_norm" or "not_finite", as metrics.jsonl has it; empty where the update was applied.
const char* skip_reason(int skipped);

/// So many samples of a skipped step are named in a warning; metrics.jsonl has all.
inline constexpr std::size_t kNamedSamples = 8;

/// "samples 12, 7 and 14 more"
std::string name_samples(std::span<const std::uint64_t> samples);

}  // namespace llmc
