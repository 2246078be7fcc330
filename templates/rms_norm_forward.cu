// rms_norm_forward: y = x * rstd * weight, rstd = 1 / sqrt(mean(x^2) + eps) of each row.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// x, y [kRows, kCols]; weight [kCols]; rstd [kRows].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL rms_norm_forward(const Residual* __restrict__ x, const float* __restrict__ weight, Act* __restrict__ y,
                             float* __restrict__ rstd) {
  const Group<kLanes, Act> lanes;
  const auto scale = lanes.row<kCols>(weight);
  for (const int row : lanes.rows(kRows)) {
    const auto in = lanes.load(lanes.row<kCols, kPitch>(x, row));
    const float mean_square = lanes.sum(in, [](float v) { return v * v; }) / kCols;
    const float r = 1.0f / sqrt(mean_square + kEps);
    lanes.store(lanes.row<kCols, kPitch>(y, row), in, scale, [=](float v, float w) {
      if constexpr (kOnePlus) w += 1.0f;
      return v * r * w;
    });
    if (lanes.leads()) rstd[row] = r;
  }
}

}  // namespace llmc
