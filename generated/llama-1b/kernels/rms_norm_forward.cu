// rms_norm_forward: from template rms_norm_forward for run llama-1b (67f153b1f9efd53ce0b214734deeb5f9).
//
// Act = bf16, Residual = float, kRows = 32768, kCols = 2048, kPitch = 2048, kEps = 1e-05f, kLanes = 128
//
// 32768 rows of 2048; moves 402.79 MB, 268.44 MFLOP a launch.

// rms_norm_forward: y = x * rstd * weight, rstd = 1 / sqrt(mean(x^2) + eps) of each row.
#include "device/group.h"

namespace llmc {

using Act = bf16;
using Residual = float;

/// x, y [kRows, kCols]; weight [kCols]; rstd [kRows].
LLMC_BOUNDS(128)
LLMC_KERNEL rms_norm_forward(const Residual* __restrict__ x, const float* __restrict__ weight, Act* __restrict__ y,
                             float* __restrict__ rstd) {
  const Group<128, Act> lanes;
  const auto scale = lanes.row<2048>(weight);
  for (const int row : lanes.rows(32768)) {
    const auto in = lanes.load(lanes.row<2048, 2048>(x, row));
    const float mean_square = lanes.sum(in, [](float v) { return v * v; }) / 2048;
    const float r = 1.0f / sqrt(mean_square + 1e-05f);
    lanes.store(lanes.row<2048, 2048>(y, row), in, scale, [=](float v, float w) { return v * r * w; });
    if (lanes.leads()) rstd[row] = r;
  }
}

}  // namespace llmc
