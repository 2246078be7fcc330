// How far the trainer's tensors are from the interpreter's, and how far they may be.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/tools/float64/value.h"
#include "program/dtype.h"

namespace llmc::verify {

/// The element of one op's result that is farthest off, in units of what it may be off by.
struct Worst {
  double of_bound = 0;  // above 1: off
  double exact = 0, found = 0;
  std::int64_t row = 0, column = 0;
};

/// A result of an op against float64 of the op's own inputs: what a kernel in fp32 may be off by (Value), and half a
/// unit in the last place of `stored`, the type in which the result was stored.
Worst compare(const Value& exact, const Matrix& found, DType stored);

/// The same of what a step says (StepResults).
Worst compare_results(const Value& exact, std::span<const std::byte> found);

/// The L2 norm of the difference over that of `exact`, as both grow; infinite where only the first is not 0.
class Distance {
 public:
  void add(const Matrix& exact, const Matrix& found);
  double difference() const;  // its norm
  double relative() const;

 private:
  double difference_ = 0, size_ = 0;  // squares
};

}  // namespace llmc::verify
