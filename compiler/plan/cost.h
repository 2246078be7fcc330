// Lists every launch of a step and adds up its bytes and FLOPs.
#pragma once

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Fills plan.kernels, plan.products, plan.launches and plan.cost from its graph.
/// Model FLOPs per token: 6 * (parameters of the layers' linears and of the head) + 6 * layers * heads * head_dim *
/// sequence (attention, causal counted once as half).
void list_work(Plan& plan);

}  // namespace llmc::plan
