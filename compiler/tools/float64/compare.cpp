#include "compiler/tools/float64/compare.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "device/types.h"

namespace llmc::float64 {
namespace {

/// Kernels may flush values to 0 below the smallest normal number of fp32 and bf16, so smaller differences do not
/// count.
constexpr double kSmallest = 0x1p-126;

double rounding(DType stored) { return row_of(stored).roundoff; }

void take(Worst& worst, double exact, double found, double bound, std::int64_t row, std::int64_t column) {
  if (exact == found) return;
  const double of_bound = std::abs(found - exact) / bound;
  if (of_bound <= worst.of_bound) return;
  worst = {std::isnan(of_bound) ? std::numeric_limits<double>::infinity() : of_bound, exact, found, row, column};
}

}  // namespace

Worst compare(const OpValue& exact, const Matrix& found, DType stored) {
  Worst worst;
  if (exact.undefined) return worst;
  const Matrix& m = exact.matrix;
  const double relative = rounding(stored) + exact.relative;
  if (exact.sums_alone) {
    for (std::int64_t j = 0; j < m.cols; ++j) {
      double sum = 0, found_sum = 0;
      for (std::int64_t i = 0; i < m.rows; ++i) sum += m.at(i, j), found_sum += found.at(i, j);
      take(worst, sum, found_sum, relative * std::abs(sum) + exact.noise * exact.scale_at(0, j) + kSmallest, 0, j);
    }
    return worst;
  }
  for (std::int64_t i = 0; i < m.rows; ++i)
    for (std::int64_t j = 0; j < m.cols; ++j) {
      const double e = m.at(i, j);
      take(worst, e, found.at(i, j), relative * std::abs(e) + exact.noise * exact.scale_at(i, j) + kSmallest, i, j);
    }
  return worst;
}

Worst compare_results(const OpValue& exact, std::span<const std::byte> found) {
  StepResults e, f;
  std::memcpy(&e, exact.records.data(), sizeof e);
  std::memcpy(&f, found.data(), sizeof f);
  Worst worst;
  const double both[][2] = {{e.loss, f.loss},
                            {e.top1, f.top1},
                            {e.lse, f.lse},
                            {e.entropy, f.entropy},
                            {e.requests, f.requests},
                            {e.lse_max, f.lse_max},
                            {static_cast<double>(e.grad_norm), static_cast<double>(f.grad_norm)},
                            {static_cast<double>(e.clip_scale), static_cast<double>(f.clip_scale)},
                            {static_cast<double>(e.skipped), static_cast<double>(f.skipped)},
                            {static_cast<double>(e.updates), static_cast<double>(f.updates)}};
  std::int64_t field = 0;
  for (const auto& [x, y] : both) take(worst, x, y, 8 * kFp32 * std::abs(x) + kSmallest, 0, field++);
  return worst;
}

void Distance::add(const Matrix& exact, const Matrix& found) {
  for (std::int64_t i = 0; i < exact.rows; ++i)
    for (std::int64_t j = 0; j < exact.cols; ++j) {
      const double e = exact.at(i, j), d = found.at(i, j) - e;
      difference_ += d * d;
      size_ += e * e;
    }
}

double Distance::difference() const { return std::sqrt(difference_); }

double Distance::relative() const {
  if (difference_ == 0) return 0;
  return size_ > 0 ? std::sqrt(difference_ / size_) : std::numeric_limits<double>::infinity();
}

}  // namespace llmc::float64
