// Deals the matrices that an optimizer orthogonalises to the ranks of a run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace llmc {

/// Owner of each matrix of each layer: layer by layer the costliest first, to the rank with the least work so far, of
/// equal ones the first. A pure function of its arguments, so that all ranks agree.
class MatrixOwners {
 public:
  /// costs: FLOPs of each matrix of a layer.
  MatrixOwners(int ranks, std::size_t layers, const std::vector<double>& costs)
      : matrices_(costs.size()), work_(static_cast<std::size_t>(ranks)), owners_(layers * costs.size()) {
    std::vector<std::size_t> order(costs.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
    for (std::size_t layer = 0; layer < layers; ++layer)
      for (const std::size_t matrix : order) {
        const auto least = std::ranges::min_element(work_);
        *least += costs[matrix];
        owners_[layer * matrices_ + matrix] = static_cast<int>(least - work_.begin());
      }
  }

  int of(std::size_t layer, std::size_t matrix) const { return owners_[layer * matrices_ + matrix]; }
  /// FLOPs of each rank.
  const std::vector<double>& work() const { return work_; }
  /// The rank with most work.
  int busiest() const { return static_cast<int>(std::ranges::max_element(work_) - work_.begin()); }

 private:
  std::size_t matrices_;
  std::vector<double> work_;
  std::vector<int> owners_;
};

}  // namespace llmc
