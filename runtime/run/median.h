// The median of figures of a run: one definition for what is judged by it and for what is shown.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace llmc {

/// Median; for an even number of values the mean of the middle two. At least one value, no NaN.
inline double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

}  // namespace llmc
