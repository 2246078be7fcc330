// Sizes what the graph leaves open: the scratch memory of attention's backward pass and of the optimizer's reductions.
#pragma once

#include "compiler/plan/plan.h"
#include "math/attention.h"

namespace llmc::plan {

/// The attention of one micro-batch, as the CUDA runtime takes it.
AttentionShape attention_shape(const graph::Graph& graph, const spec::Spec& spec);

/// Whether kernels of llmc's own compute attention on CUDA, and not cuDNN. Throws Failure(spec) for an attention that what
/// the spec asks for does not have.
bool portable_attention(const graph::Graph& graph, const spec::Spec& spec);

/// Throws as portable_attention() does.
void size_workspaces(graph::Graph& graph, const ParameterLayout& parameters, const spec::Spec& spec);

}  // namespace llmc::plan
