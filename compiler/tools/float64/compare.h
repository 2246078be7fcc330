// Compares the trainer's tensors with the interpreter's, relative to an error bound.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/tools/float64/value.h"
#include "program/dtype.h"

namespace llmc::float64 {

/// The element of one op's result with the largest error, in units of its bound.
struct Worst {
  double of_bound = 0;  // above 1: beyond the bound
  double exact = 0, found = 0;
  std::int64_t row = 0, column = 0;
};

/// Returns the bound of an error in element (i, j) of an op's result, which is `exact` in float64: that of a kernel in
/// fp32 (OpValue), plus half a unit in the last place of the result's dtype, `stored`.
double allowed(const OpValue& value, std::int64_t i, std::int64_t j, double exact, DType stored);

/// Compares a result of an op with float64 on the op's own inputs.
Worst compare(const OpValue& exact, const Matrix& found, DType stored);

/// Does the same for records: the numbers of a step (StepResults), or numbers in double.
/// `record`: Tensor::record.
Worst compare_records(const char* record, const OpValue& exact, std::span<const std::byte> found);

/// Accumulates the L2 norm of the difference over that of `exact`; infinite if only the latter is 0.
class Distance {
 public:
  void add(const Matrix& exact, const Matrix& found);
  double difference() const;  // its norm
  double size() const;        // that of `exact`
  double relative() const;

 private:
  double difference_ = 0, size_ = 0;  // squares
};

}  // namespace llmc::float64
