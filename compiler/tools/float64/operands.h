// Operands of one run of an op, in the trainer's memory and as the interpreter's matrices.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/tools/float64/op_order.h"
#include "compiler/tools/float64/value.h"

namespace llmc::float64 {

/// The part of a tensor that an op sees: in a loss chunk, the chunk's part.
struct Extent {
  std::int64_t rows = 0, cols = 0, pitch = 0;
  DType dtype = DType::f32;
  bool records = false;  // structs: `bytes()` of them

  /// Bytes from the first element to the last one.
  std::int64_t bytes() const { return bytes_of(dtype, (rows - 1) * pitch + cols); }
};
Extent extent_of(const plan::Plan& plan, const graph::Region& region, graph::TensorId id);

/// The memory of an operand of one launch, in which no other tensor is.
struct Place {
  graph::TensorId buffer = graph::kNone;  // a flat buffer, or the tensor itself
  std::int64_t copy = 0;                  // layer, or boundary of layers
  std::int64_t row = 0, column = 0;       // first element
};
Place place_of(const plan::Plan& plan, const ScheduledOp& launch, graph::TensorId id);

/// Converts the elements of `extent` in memory to float64, into a matrix of equal rows and columns.
void widen(const Extent& extent, std::span<const std::byte> bytes, const Matrix& to);

/// Does the same with split masters, of which these are all parts in memory.
void join(const Extent& extent, std::span<const std::byte> copies, std::span<const std::byte> rest,
          std::span<const std::byte> ties, const Matrix& to);

/// A tensor with its own memory.
struct Owned {
  std::vector<double> elements;
  std::vector<std::byte> records;

  explicit Owned(const Extent& extent);
  OpValue value(const Extent& extent);
};

/// Whether the op reads the previous contents of an output.
bool reads_before(const graph::Tensor& output);

}  // namespace llmc::float64
