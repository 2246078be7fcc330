// Lays the parameters out in the flat buffers and names their parts as Hugging Face does.
#pragma once

#include "compiler/plan/plan.h"

namespace llmc::plan {

ParameterLayout lay_out_parameters(const graph::Graph& graph, const spec::Spec& spec);

/// Gives tensors that stand for all parameters their sizes.
void size_flat(graph::Graph& graph, const ParameterLayout& layout);

}  // namespace llmc::plan
