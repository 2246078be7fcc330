// Sizes what the graph leaves open: the scratch memory of attention's backward pass and of the optimizer's reductions.
#pragma once

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Of the plan's graph, from its spec, parameters and attention.
void size_workspaces(Plan& plan);

}  // namespace llmc::plan
