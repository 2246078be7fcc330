// rms_norm_forward_quantised: y = x * rstd * weight, rstd = 1 / sqrt(mean(x^2) + eps) of each row, and y's rows in
// e4m3.
#include "device/fp8.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

/// x, y, codes [kRows, kCols]; weight [kCols]; rstd, scales [kRows]. codes and scales are those that quantise makes of
/// y. Without kNumbers y is not written, and null.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL rms_norm_forward_quantised(const Residual* __restrict__ x, const float* __restrict__ weight,
                                       Act* __restrict__ y, float* __restrict__ rstd, Result* __restrict__ codes,
                                       float* __restrict__ scales) {
  const Group<kLanes, Act> lanes;
  const auto scale = lanes.row<kCols>(weight);
  for (const int row : lanes.rows(kRows)) {
    const auto in = lanes.load(lanes.row<kCols, kPitch>(x, row));
    const float mean_square = lanes.sum(in, [](float v) { return v * v; }) / kCols;
    const float r = 1.0f / sqrt(mean_square + kEps);
    auto results = lanes.columns<kCols, Act>();
    lanes.store(results, in, scale, [=](float v, float w) {
      if constexpr (kOnePlus) w += 1.0f;
      return v * r * w;
    });
    const auto values = lanes.load(results);
    const E4m3Row<Result> rounded(e4m3_scale(lanes.largest(values, [](float v) { return magnitude(v); })));
    lanes.store(lanes.row<kCols, kPitch>(codes, row), values, rounded);
    if constexpr (kNumbers) {
      lanes.store(lanes.row<kCols, kPitch>(y, row), values, [](float v) { return v; });
    }
    if (lanes.leads()) {
      rstd[row] = r;
      scales[row] = rounded.scale;
    }
  }
}

}  // namespace llmc
