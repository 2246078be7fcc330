// loss_sum: from template loss_sum for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// kRows = 2048, kLanes = 1
//
// 1 rows of 2048; moves 0.04 MB, 0.01 MFLOP a launch.

// loss_sum: reports on a step's targets. (=|+=) loss_scale * the sums over rows of losses, correct, lse and entropies,
// in double and in a fixed order, and the largest lse. Also passes on the requests to this rank.
#include "device/group.h"

namespace llmc {

/// losses, lse, entropies, correct [kRows]: 0 in a row without a target, and lse -infinity. accumulate: add to the
/// results.
LLMC_BOUNDS_RESIDENT(1, 1024)
LLMC_KERNEL loss_sum(const float* __restrict__ losses, const float* __restrict__ lse,
                     const float* __restrict__ entropies, const float* __restrict__ correct,
                     const StepScalars* __restrict__ scalars, StepResults* __restrict__ results, int accumulate) {
  const Group<1> lanes;
  if (!lanes.alone()) return;
  const auto mean = [&](const float* values) {
    return lanes.sum<double>(lanes.row<2048>(values), [](float v) { return v; }) * scalars->loss_scale;
  };
  const double loss = mean(losses), top1 = mean(correct), entropy = mean(entropies);
  const auto all = lanes.row<2048>(lse);
  const double highest = lanes.largest(all, [](float v) { return v; });
  const double sum = lanes.sum<double>(all, [](float v) { return v == -__builtin_huge_valf() ? 0.0f : v; });
  const double mean_lse = sum * scalars->loss_scale;
  if (!lanes.leads()) return;
  results->loss = accumulate ? results->loss + loss : loss;
  results->top1 = accumulate ? results->top1 + top1 : top1;
  results->lse = accumulate ? results->lse + mean_lse : mean_lse;
  results->entropy = accumulate ? results->entropy + entropy : entropy;
  results->lse_max = accumulate && results->lse_max > highest ? results->lse_max : highest;
  results->requests = scalars->requests;
}

}  // namespace llmc
