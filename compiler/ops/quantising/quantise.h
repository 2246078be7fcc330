// Shared by the ops that round operands of fp8 products.
//
// Operands of results that an op's kernel rounds to e4m3 itself: Op::quantised, in its order. After the op's
// own inputs come the factors of each result that has them, and of each that is transposed the scales of its rows and
// the largest of them; after its own outputs come codes and scales of each. Codes of a result that is not written take
// its place among the op's own.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "compiler/graph/graph.h"
#include "compiler/ops/lanes.h"
#include "compiler/ops/op.h"

namespace llmc::ops {

struct QuantisedOperands {
  graph::TensorId codes, scales, factors = graph::kNone;
  bool alone = false;                                                // the result itself is not written
  graph::TensorId row_scales = graph::kNone, shared = graph::kNone;  // of a result whose codes are transposed
};

/// Returns those of the op's own output `output`; nothing if it is not quantised.
std::optional<QuantisedOperands> quantised(const graph::Op& op, int output);

/// Whether the op transposes codes under one scale and nothing else, which the kernel that makes them may do instead.
bool only_transposes(const graph::Graph& graph, const graph::Op& op);

/// Number of the operands that such a result adds to the op's inputs.
std::size_t inputs_of(const graph::Quantised& q);

/// Numbers of the op's own operands.
std::size_t own_inputs(const graph::Op& op);
std::size_t own_outputs(const graph::Op& op);

/// Dtype in which these ops read a weight.
DType reads_bf16(const Operands& o, std::size_t i);

/// "4096_2048": distinguishes the instances, of which a step has one for each operand's shape.
std::string shape_text(const graph::Tensor& t);

/// Returns the shape of a kernel whose groups of lanes collect `rows` rows of `cols` codes each before they write them
/// transposed; nothing if a block has no memory for them.
std::optional<LaunchShape> collecting(LaunchShape shape, std::int64_t rows, std::int64_t cols);

/// Shape of kernels that transpose codes tile by tile (device/cuda/transposed_tile.h).
LaunchShape transposing_shape(const graph::Tensor& x);

}  // namespace llmc::ops
