// Tolerance of an element of a GEMM against the same sum in double.
#pragma once

#include <cmath>

#include "math/gemm.h"

namespace llmc {

/// Statistics of an element's terms: products and addends.
struct Terms {
  double sum = 0, magnitude = 0, products = 0;  // products: sum of their squares

  void multiply(double a, double b) {
    add(a * b);
    products += a * b * a * b;
  }
  /// Multiplies the terms so far by alpha.
  void scale(double alpha) {
    sum *= alpha;
    magnitude *= std::abs(alpha);
    products *= alpha * alpha;
  }
  void add(double term) {
    sum += term;
    magnitude += std::abs(term);
  }

  /// fp32 sums of n terms in any order err by at most n * 2^-24 * sum of magnitudes; in practice by the square root of
  /// n instead of n, and 4 times that is allowed. A bf16 result is rounded once more, by at most 2^-8 of itself.
  ///
  /// bf16x3 computes three products per term and omits at most 2^-15 of the term, with either sign. Relative to the
  /// root of the sum of squares that is 2^-17.6 on average, and 2^-14 is 12 times that. Without one of the three it
  /// would be 2^-9.
  double tolerance(const GemmShape& shape) const {
    const double n = static_cast<double>(shape.k + 3) * (shape.bf16x3() ? 3 : 1);
    return 4 * std::sqrt(n) * std::ldexp(magnitude, -24) +
           (shape.d().dtype == DType::bf16 ? 1.001 * std::ldexp(std::abs(sum), -8) : 0) +
           (shape.bf16x3() ? 2 * kBf16x3 * std::sqrt(products) : 0);
  }
};

}  // namespace llmc
