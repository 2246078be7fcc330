// Rounds to formats of 8 bits, and finds their scales.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace llmc::float64 {

struct Format {
  int mantissa_bits, least_exponent;
  double largest;
};
inline constexpr Format kE4m3 = {3, -6, 448}, kE5m2 = {2, -14, 57344};

/// Rounds to the nearest multiple of the step of v's own power of two, which is at least that of the least normal
/// number; ties to even.
inline double nearest(double v, const Format& format) {
  const int exponent = v == 0 ? format.least_exponent : std::max(std::ilogb(v), format.least_exponent);
  const double step = std::ldexp(1.0, exponent - format.mantissa_bits);
  return std::nearbyint(v / step) * step;
}

/// Returns the smallest power of two, from 2^-100 on, by which `largest` divided is at most the format's largest
/// number.
inline double scale_of(double largest, const Format& format) {
  if (!std::isfinite(largest)) return std::nan("");
  return largest == 0 ? 0x1p-100 : std::max(0x1p-100, std::exp2(std::ceil(std::log2(largest / format.largest))));
}

/// Returns the 256 numbers of the dynamic map in order (Dettmers et al. 2022, appendix): the centres of n equal parts
/// of [10^(i-7), 10^(i-6)] for i from 0 to 6, n = 2^i and both signs or n = 2^(i+1) and one, 0, and 1.
inline std::vector<double> dynamic_map(bool both_signs) {
  std::vector<double> numbers = {0, 1};
  for (int i = 0; i < 7; ++i)
    for (int n = 1 << (both_signs ? i : i + 1), j = 0; j < n; ++j) {
      const double number = std::pow(10.0, i - 6) * (0.1 + 0.9 * (j + 0.5) / n);
      numbers.push_back(number);
      if (both_signs) numbers.push_back(-number);
    }
  std::ranges::sort(numbers);
  return numbers;
}

/// Returns the number nearest to v.
inline double nearest(double v, const std::vector<double>& numbers) {
  const auto above = std::ranges::lower_bound(numbers, v);
  if (above == numbers.begin()) return numbers.front();
  if (above == numbers.end()) return numbers.back();
  const double below = *std::prev(above);
  return v - below < *above - v ? below : *above;
}

}  // namespace llmc::float64
