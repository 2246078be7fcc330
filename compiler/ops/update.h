// Declares members of rows of ops that update all weights: one op for each optimizer (program/optimizers.h), with its
// name.
#pragma once

#include <vector>

#include "compiler/ops/op.h"

namespace llmc::ops {

// Inputs of such an op; the optimizer's state follows, tensor by tensor, unless an op before it has used that already.
enum UpdateInput : unsigned {
  kUpdateResults,
  kUpdateMasters,
  kUpdateGradients,
  kUpdateChunks,
  kUpdateScalars,
  kUpdateGroups,
  kUpdateState
};

/// results, masters, gradients, chunks, the optimizer's scalars, its groups', state... -> [copies, [ties]],
/// [partial sums of squares of weights, of updates]. Of split masters the second input is their rest.
void update_signature(const Operands& o);

/// Returns a buffer of state as kernels take it: moved back by what lies before the first bucket that it has, because
/// Chunk::state counts from the first bucket's share on.
Argument state_argument(const Context& c, TensorId id);

/// Sizes partial sums: one per chunk.
void sum_a_chunk(Graph& graph, const Op& op, const spec::Spec&, const FlatSizes& flat, const AttentionChoices&);

/// Returns the masters and `state` tensors.
constexpr InputSet update_changes(unsigned state) {
  return input(kUpdateMasters) | ((1u << state) - 1) << kUpdateState;
}

/// Launches the template with the op's name, which computes `flops_per_element`. `split_template`: the one for split
/// masters; the same name: it takes masters of both kinds.
std::vector<Work> update_work(const Context& c, double flops_per_element, const char* split_template);

}  // namespace llmc::ops
