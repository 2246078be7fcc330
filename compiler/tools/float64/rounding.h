// Errors of rounding for a run in float64: how much of its own rounding a model magnifies.
#pragma once

#include <cstdint>

#include "compiler/tools/float64/value.h"

namespace llmc::float64 {

/// Returns a number in [-1, 1) for each `index`, without a state.
double scattered(std::uint64_t index);

class Rounding {
 public:
  /// `draw`: number of the sequence of errors.
  explicit Rounding(int draw) : drawn_(static_cast<std::uint64_t>(draw) << 40) {}

  /// Adds to each number that an interpreted op has written an error of at most the op's bound (compare.h).
  void add(OpRun& run);

 private:
  void add(OpValue& value, DType stored);

  std::uint64_t drawn_;
};

}  // namespace llmc::float64
