// Stops a run whose updates the device keeps skipping.
#pragma once

#include <cstdint>
#include <string>

#include "device/types.h"

namespace llmc {

/// The device skips an update whose loss or gradient norm is not finite, so the weights stay as they were.
class SkipGuard {
 public:
  /// A batch can be bad; this many one after another mean that the weights are.
  static constexpr int kLimit = 10;

  /// `step`: optimizer steps done. `where`: of several ranks, those whose own loss was not finite: "on rank 1 (host
  /// b)". Returns what to warn of, empty when the update was applied.
  std::string observe(std::int64_t step, const StepResults& results, const std::string& where = "");
  int in_a_row() const { return in_a_row_; }
  /// Throws SharedFailure(numerics) after kLimit skipped updates in a row.
  void check() const;

 private:
  int in_a_row_ = 0;
  std::int64_t last_step_ = 0;
  std::string first_where_;  // of those in a row
};

}  // namespace llmc
