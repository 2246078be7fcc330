#include "program/matrix_owners.h"

#include <algorithm>
#include <numeric>

namespace llmc {

MatrixOwners::MatrixOwners(int ranks, std::size_t layers, std::span<const double> costs)
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

MatrixOwners::MatrixOwners(int ranks, std::size_t layers, std::initializer_list<double> costs)
    : MatrixOwners(ranks, layers, std::span(costs.begin(), costs.size())) {}

MatrixOwners::MatrixOwners(const MatrixOwners& other) = default;
MatrixOwners::~MatrixOwners() = default;

int MatrixOwners::busiest() const { return static_cast<int>(std::ranges::max_element(work_) - work_.begin()); }

}  // namespace llmc
