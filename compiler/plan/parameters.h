// Lays out the parameters in the flat buffers and names their pieces as Hugging Face does.
#pragma once

#include "compiler/plan/plan.h"

namespace llmc::plan {

ParameterLayout lay_out_parameters(const graph::Graph& graph, const spec::Spec& spec);

/// Sets the sizes of tensors that stand for all parameters.
void size_flat(graph::Graph& graph, const ParameterLayout& layout);

}  // namespace llmc::plan
