// Gives every tensor of the step an offset in the arena.
#pragma once

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Lays out the arena. First come weights and gradients, buffers that the host writes, the residual stream, a slab per
/// layer of tensors for its backward pass, and transients packed by lifetime. Last come sharded buffers (is_sharded),
/// one of parallel.world_size shards each, and the gather buffers. On CUDA the workspace of matrix products is
/// kTunedWorkspace if memory.budget allows it, else kUntunedWorkspace. `micro_batches`: of the largest step.
ArenaLayout lay_out(const graph::Graph& graph, const Schedule& schedule, const spec::Spec& spec,
                    const ParameterLayout& parameters, std::int64_t micro_batches);

}  // namespace llmc::plan
