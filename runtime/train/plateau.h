// Detects a loss that no longer falls: docs/reference/guards.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/guard_state.h"

namespace llmc {

/// Fall of a line through evenly spaced values (least squares) from the first to the last, and the spread of the values
/// around it, as spread_of() defines one. At least two values.
struct Fall {
  double fall, spread;
};
Fall fall_of(std::span<const double> values);

/// Ratio of an update's L2 norm to that of the weights; `norms`: those of gradient, weight and update, [parameters, 3].
double update_ratio(std::span<const float> norms);

/// Smooths the loss by means over blocks of steps, and warns once in a run when the means of the last `kBlocks` blocks
/// have not fallen by more than their spread. Updates that were skipped do not count. All ranks see the same losses.
class Plateau {
 public:
  static constexpr std::int64_t kBlocks = 8;

  /// `steps`: guards.plateau, rounded up to whole blocks; 0: never. `state`: of a checkpoint; with another number of
  /// steps than this its means are dropped. Whether the run was warned is kept.
  Plateau(std::int64_t steps, PlateauState state);

  /// Takes the loss of an applied step. `norms`: as in update_ratio(), empty if they are unknown. Returns a warning, or
  /// an empty string.
  std::string observe(std::int64_t step, double loss, double rate, std::span<const float> norms);

  const PlateauState& state() const { return state_; }

 private:
  /// Smallest fall that counts, as a fraction of the loss: that of sums in another order is smaller.
  static constexpr double kFloor = 1e-6;

  PlateauState state_;
};

}  // namespace llmc
