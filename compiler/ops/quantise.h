// Finds the operands of results that an op's kernel rounds to e4m3 itself: Op::quantised, in its order. After the op's
// own inputs come the factors of each result that has them; after its own outputs come codes and scales of each. Codes
// of a result that is not written take its place among the op's own.
#pragma once

#include <cstddef>
#include <optional>

#include "compiler/graph/graph.h"

namespace llmc::ops {

struct QuantisedOperands {
  graph::TensorId codes, scales, factors = graph::kNone;
  bool alone = false;  // the result itself is not written
};

/// Returns those of the op's own output `output`; nothing if it is not quantised.
std::optional<QuantisedOperands> quantised(const graph::Op& op, int output);

/// Numbers of the op's own operands.
std::size_t own_inputs(const graph::Op& op);
std::size_t own_outputs(const graph::Op& op);

}  // namespace llmc::ops
