// rms_norm_forward: from template rms_norm_forward for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// Act = float, Residual = float, kRows = 2048, kCols = 256, kPitch = 256, kEps = 1e-05f, kLanes = 1
//
// 2048 rows of 256; moves 4.20 MB, 2.10 MFLOP a launch.

// rms_norm_forward: y = x * rstd * weight, rstd = 1 / sqrt(mean(x^2) + eps) of each row.
#include "device/group.h"

namespace llmc {

using Act = float;
using Residual = float;

/// x, y [kRows, kCols]; weight [kCols]; rstd [kRows].
LLMC_BOUNDS(1)
LLMC_KERNEL rms_norm_forward(const Residual* __restrict__ x, const float* __restrict__ weight, Act* __restrict__ y,
                             float* __restrict__ rstd) {
  const Group<1, Act> lanes;
  const auto scale = lanes.row<256>(weight);
  for (const int row : lanes.rows(2048)) {
    const auto in = lanes.load(lanes.row<256, 256>(x, row));
    const float mean_square = lanes.sum(in, [](float v) { return v * v; }) / 256;
    const float r = 1.0f / sqrt(mean_square + 1e-05f);
    lanes.store(lanes.row<256, 256>(y, row), in, scale, [=](float v, float w) { return v * r * w; });
    if (lanes.leads()) rstd[row] = r;
  }
}

}  // namespace llmc
