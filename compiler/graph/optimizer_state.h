// Gives groups of parameters their optimizers: the matrices of layers and the others by optimizer.kind, each in the
// format of precision.optimizer_state.
#pragma once

#include "compiler/graph/graph.h"
#include "spec/spec.h"

namespace llmc::graph {

/// Matrices have fewer elements than this only where 8 bits would save nothing and cost most precision.
inline constexpr std::int64_t kLeastInt8Elements = 4096;

/// An optimizer that orthogonalises has the matrices of layers alone, and all other groups name AdamW.
///
/// With int8 the matrices of layers and an untied head name AdamW in 8 bits. Those that cannot be cut into blocks of
/// their own (padded rows; a part of a fused weight that begins within a block) and small ones go to groups of their
/// own, which keep fp32. The embedding and vectors stay in fp32.
void choose_optimizers(Graph& graph, const spec::Spec& spec);

}  // namespace llmc::graph
