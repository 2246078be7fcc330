// rms_norm_forward: y = x * rstd * weight, rstd = 1 / sqrt(mean(x^2) + eps) of each row.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// x, y [kRows, kCols]; weight [kCols]; rstd [kRows].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL rms_norm_forward(const Residual* __restrict__ x, const float* __restrict__ weight, Act* __restrict__ y,
                             float* __restrict__ rstd) {
  const Group<kLanes, Act> g;
  const auto scale = g.row<kCols>(weight);
  for (const int row : g.rows(kRows)) {
    const auto in = g.load(g.row<kCols, kPitch>(x, row));
    const float mean_square = g.sum(in, [](float v) { return v * v; }) / kCols;
    const float r = 1.0f / sqrt(mean_square + kEps);
    g.store(g.row<kCols, kPitch>(y, row), in, scale, [=](float v, float w) { return v * r * w; });
    if (g.leads()) rstd[row] = r;
  }
}

}  // namespace llmc
