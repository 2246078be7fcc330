#include "compiler/tools/runs/outliers.h"

#include <algorithm>
#include <cmath>

#include "run/median.h"

namespace llmc::runs {

bool Outliers::observe(double value) {
  if (!std::isfinite(value) || value <= 0) return false;
  const double size = std::log(value);
  bool far = false;
  if (window_.size() >= kFewest) {
    std::vector<double> distances(window_.begin(), window_.end());
    const double median = median_of(distances);
    for (double& distance : distances) distance = std::abs(distance - median);
    far = size - median > std::max(kFar * median_of(std::move(distances)), kLeast);
  }
  window_.push_back(size);
  if (window_.size() > kWindow) window_.pop_front();
  return far;
}

}  // namespace llmc::runs
