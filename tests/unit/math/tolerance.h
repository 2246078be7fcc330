// How far an element of a matrix product may be from the same sum in double.
#pragma once

#include <cmath>

#include "math/gemm.h"

namespace llmc {

/// The terms that an element is the sum of: products, and what is added to them.
struct Terms {
  double sum = 0, magnitude = 0, products = 0;  // products: the sum of their squares

  void multiply(double a, double b) {
    add(a * b);
    products += a * b * a * b;
  }
  void add(double term) {
    sum += term;
    magnitude += std::abs(term);
  }

  /// fp32 sums of n terms in any order err by at most n * 2^-24 * sum of magnitudes; in practice by its square root,
  /// and 4 of those are allowed. A bf16 result is rounded once more, by at most 2^-8 of itself.
  ///
  /// bf16x3 has three products for each term, and what these leave out of it is at most 2^-15 of the term, as often up
  /// as down: of the root of the sum of squares it is 2^-17.6 in the mean, and 2^-14 is 12 times that. Without one of
  /// the three it would be 2^-9.
  double tolerance(const GemmShape& shape) const {
    const double n = static_cast<double>(shape.k + 3) * (shape.bf16x3() ? 3 : 1);
    return 4 * std::sqrt(n) * std::ldexp(magnitude, -24) +
           (shape.result == DType::bf16 ? 1.001 * std::ldexp(std::abs(sum), -8) : 0) +
           (shape.bf16x3() ? 2 * kBf16x3 * std::sqrt(products) : 0);
  }
};

}  // namespace llmc
