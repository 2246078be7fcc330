#include "compiler/tools/sweep/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace llmc::sweep {

std::optional<double> number_of(const std::string& value) {
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

bool is_numeric(const Axis& axis) {
  return std::ranges::all_of(axis.values, [](const std::string& value) { return number_of(value).has_value(); });
}

std::vector<std::size_t> ascending(const Axis& axis) {
  std::vector<std::size_t> order(axis.values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (is_numeric(axis)) std::ranges::stable_sort(order, {}, [&](std::size_t i) { return *number_of(axis.values[i]); });
  return order;
}

}  // namespace llmc::sweep
