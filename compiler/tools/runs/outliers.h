// Values far above those before them: spikes of a loss or of a gradient norm.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace llmc::runs {

/// Judges values in their order, by their logarithms, since losses and norms vary in proportion to their size. One is
/// an outlier that lies above the median of the kWindow values before it by more than kFar times their median distance
/// from that median, and by more than kLeast. Values that are not finite or not above zero are passed over.
class Outliers {
 public:
  static constexpr std::size_t kWindow = 100, kFewest = 20;  // with fewer before it, nothing is an outlier
  static constexpr double kFar = 8, kLeast = 0.1;            // 10 %

  bool observe(double value);

 private:
  std::deque<double> window_;   // logarithms of the last ones, in order
  std::vector<double> sorted_;  // the same by size
};

}  // namespace llmc::runs
