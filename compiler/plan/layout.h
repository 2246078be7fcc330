// Gives every tensor of the step its place in the one arena.
#pragma once

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Order in the arena: weights and gradients, what the host writes, the residual stream, one slab a layer of what the
/// backward pass needs, transients packed by lifetime, optimizer state last (its size depends on the number of ranks).
/// On CUDA the workspace of matrix products is kTunedWorkspace where memory.budget allows it, else kUntunedWorkspace.
Layout lay_out(const graph::Graph& graph, const ParameterLayout& parameters, const spec::Spec& spec,
               std::int64_t micro_batches);

}  // namespace llmc::plan
