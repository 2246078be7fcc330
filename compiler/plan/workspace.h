// Sizes what the graph leaves open: the scratch memory of attention's backward pass and of the optimizer's reductions.
#pragma once

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Throws as choose_attention() does.
void size_workspaces(graph::Graph& graph, const ParameterLayout& parameters, const spec::Spec& spec);

}  // namespace llmc::plan
