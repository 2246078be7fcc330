// Detects values far above those before them: spikes of a loss or of a gradient norm.
#pragma once

#include <cstddef>
#include <deque>

namespace llmc::runs {

/// Compares logarithms, because losses and norms vary in proportion to their size. An outlier exceeds the median of the
/// kWindow values before it by more than kFar times their median absolute deviation, and by more than kLeast. Values
/// that are not finite or not above zero are skipped.
class Outliers {
 public:
  static constexpr std::size_t kWindow = 100, kFewest = 20;  // with fewer values before it, none is an outlier
  static constexpr double kFar = 8, kLeast = 0.1;            // 10 %

  bool observe(double value);

 private:
  std::deque<double> window_;  // logarithms of the last values, in order
};

}  // namespace llmc::runs
