// Loops over float64 that take most of the interpreter's time.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/tools/float64/value.h"

namespace llmc::float64 {

/// Computes d = op(a) op(b), or with `adds` d += op(a) op(b); op transposes if its flag is set.
void multiply(const Matrix& a, bool transpose_a, const Matrix& b, bool transpose_b, const Matrix& d, bool adds);

/// Computes y += factor * x over `n` elements.
void add_scaled(std::int64_t n, double factor, const double* x, double* y);

double dot(std::int64_t n, const double* x, const double* y);
double largest(std::int64_t n, const double* x);  // of the magnitudes
/// Returns L2 norms of the rows of op(m).
std::vector<double> row_norms_of(const Matrix& m, bool transposed);
/// Returns the L2 norm.
double length(std::int64_t n, const double* x);

}  // namespace llmc::float64
