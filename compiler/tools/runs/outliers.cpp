#include "compiler/tools/runs/outliers.h"

#include <algorithm>
#include <cmath>

namespace llmc::runs {

bool Outliers::observe(double value) {
  if (!std::isfinite(value) || value <= 0) return false;
  const double size = std::log(value);
  bool far = false;
  if (sorted_.size() >= kFewest) {
    const double median = sorted_[sorted_.size() / 2];
    std::vector<double> distances;
    for (const double other : sorted_) distances.push_back(std::abs(other - median));
    const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
    std::ranges::nth_element(distances, middle);
    far = size - median > std::max(kFar * *middle, kLeast);
  }
  window_.push_back(size);
  sorted_.insert(std::ranges::upper_bound(sorted_, size), size);
  if (window_.size() > kWindow) {
    sorted_.erase(std::ranges::lower_bound(sorted_, window_.front()));
    window_.pop_front();
  }
  return far;
}

}  // namespace llmc::runs
