// Rounds to formats of 8 bits, and finds their scales.
#pragma once

#include <algorithm>
#include <cmath>

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

}  // namespace llmc::float64
