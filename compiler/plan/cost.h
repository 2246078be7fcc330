// Lists every launch of a step and adds up its bytes and FLOPs.
#pragma once

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Fills plan.kernels, plan.products, plan.launches and plan.cost from its graph.
/// Model FLOPs per token: three times OpRow::model_flops of the forward and loss ops, of the scores that the mask
/// leaves.
void list_work(Plan& plan);

}  // namespace llmc::plan
