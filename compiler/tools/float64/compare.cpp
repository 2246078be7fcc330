#include "compiler/tools/float64/compare.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "device/types.h"

namespace llmc::float64 {
namespace {

/// Half the distance of fp16 below its smallest normal number.
constexpr double kSmallestFp16 = 0x1p-25;

void take(Worst& worst, double exact, double found, double bound, std::int64_t row, std::int64_t column) {
  if (exact == found) return;
  const double of_bound = std::abs(found - exact) / bound;
  if (of_bound <= worst.of_bound) return;
  worst = {std::isnan(of_bound) ? std::numeric_limits<double>::infinity() : of_bound, exact, found, row, column};
}

/// Returns the numbers of a record.
std::vector<double> numbers_of(const char* record, std::span<const std::byte> bytes) {
  if (std::string_view(record) == "double") {
    std::vector<double> numbers(bytes.size() / sizeof(double));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }
  if (std::string_view(record) == "LossScale") {
    LossScale s;
    std::memcpy(&s, bytes.data(), sizeof s);
    return {static_cast<double>(s.factor), static_cast<double>(s.last), static_cast<double>(s.good),
            static_cast<double>(s.overflows)};
  }
  StepResults r;
  std::memcpy(&r, bytes.data(), sizeof r);
  return {r.loss,
          r.top1,
          r.lse,
          r.entropy,
          r.requests,
          r.lse_max,
          static_cast<double>(r.grad_norm),
          static_cast<double>(r.clip_scale),
          static_cast<double>(r.skipped),
          static_cast<double>(r.updates)};
}

}  // namespace

double allowed(const OpValue& value, std::int64_t i, std::int64_t j, double exact, DType stored) {
  const double relative = value.exact ? 0 : row_of(stored).roundoff + value.relative;
  const double smallest = stored == DType::f16 ? kSmallestFp16 : kFlushed;
  return relative * std::abs(exact) + value.noise * value.scale_at(i, j) + smallest + value.flushed;
}

Worst compare(const OpValue& exact, const Matrix& found, DType stored) {
  Worst worst;
  if (exact.undefined) return worst;
  const Matrix& m = exact.matrix;
  if (exact.sums_alone) {
    for (std::int64_t j = 0; j < m.cols; ++j) {
      double sum = 0, found_sum = 0;
      for (std::int64_t i = 0; i < m.rows; ++i) sum += m.at(i, j), found_sum += found.at(i, j);
      take(worst, sum, found_sum, allowed(exact, 0, j, sum, stored), 0, j);
    }
    return worst;
  }
  for (std::int64_t i = 0; i < m.rows; ++i)
    for (std::int64_t j = 0; j < m.cols; ++j) {
      const double e = m.at(i, j), f = found.at(i, j);
      if (exact.least.empty()) {
        take(worst, e, f, allowed(exact, i, j, e, stored), i, j);
      } else {
        const auto at = static_cast<std::size_t>(i * m.cols + j);
        if (!(exact.least[at] <= f && f <= exact.most[at])) take(worst, e, f, kFlushed, i, j);
      }
    }
  return worst;
}

Worst compare_records(const char* record, const OpValue& exact, std::span<const std::byte> found) {
  const std::vector<double> e = numbers_of(record, exact.records), f = numbers_of(record, found);
  Worst worst;
  for (std::size_t i = 0; i < e.size(); ++i)
    take(worst, e[i], f[i], 8 * kFp32 * std::abs(e[i]) + kFlushed, 0, static_cast<std::int64_t>(i));
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

double Distance::size() const { return std::sqrt(size_); }

double Distance::relative() const {
  if (difference_ == 0) return 0;
  return size_ > 0 ? std::sqrt(difference_ / size_) : std::numeric_limits<double>::infinity();
}

}  // namespace llmc::float64
