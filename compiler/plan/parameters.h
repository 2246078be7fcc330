// Lays the parameters out in the flat buffers and names their parts as Hugging Face does.
#pragma once

#include "compiler/plan/plan.h"

namespace llmc::plan {

ParameterLayout lay_out_parameters(const graph::Graph& graph, const spec::Spec& spec);

}  // namespace llmc::plan
