// Gives every tensor of the step its place in the one arena.
#pragma once

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Order in the arena: weights and gradients, what the host writes, the residual stream, one slab a layer of what the
/// backward pass needs, transients packed by lifetime, and last what ranks share out (is_sharded), of which the plan
/// has the share of one of parallel.world_size ranks, and the windows. On CUDA the workspace of matrix products is
/// kTunedWorkspace where memory.budget allows it, else kUntunedWorkspace.
Layout lay_out(const graph::Graph& graph, const Schedule& schedule, const spec::Spec& spec,
               const ParameterLayout& parameters, std::int64_t micro_batches);

}  // namespace llmc::plan
