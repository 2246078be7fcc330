// rms_norm_add: y = residual + x * rstd * weight, rstd = 1 / sqrt(mean(x^2) + eps) of each row.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// x, residual, y, copy [kRows, kCols]; weight [kCols]; rstd [kRows]. kCopy: copy = y in Act; otherwise it is null.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL rms_norm_add(const Act* __restrict__ x, const float* __restrict__ weight,
                         const Residual* __restrict__ residual, Residual* __restrict__ y, float* __restrict__ rstd,
                         Act* __restrict__ copy) {
  const Group<kLanes, Act> lanes;
  const auto scale = lanes.row<kCols>(weight);
  for (const int row : lanes.rows(kRows)) {
    const auto in = lanes.load(lanes.row<kCols, kPitch>(x, row));
    const auto stream = lanes.load(lanes.row<kCols, kPitch>(residual, row));  // read with x: a row waits once
    const float mean_square = lanes.sum(in, [](float v) { return v * v; }) / kCols;
    const float r = 1.0f / sqrt(mean_square + kEps);
    const auto sum = lanes.row<kCols, kPitch>(y, row);
    if constexpr (kCopy) {
      lanes.map(sum, lanes.row<kCols, kPitch>(copy, row), in, scale, stream,
                [=](float& to, float& rounded, float v, float w, float s) {
                  if constexpr (kOnePlus) w += 1.0f;
                  to = rounded = s + v * r * w;
                });
    } else {
      lanes.store(sum, in, scale, stream, [=](float v, float w, float s) {
        if constexpr (kOnePlus) w += 1.0f;
        return s + v * r * w;
      });
    }
    if (lanes.leads()) rstd[row] = r;
  }
}

}  // namespace llmc
