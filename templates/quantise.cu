// quantise: rows rounded to e4m3, each divided by a power of two before; the result is codes, or the numbers that codes
// and scales stand for.
#include "device/fp8.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

/// x, y [kRows, kCols]; scales [kRows]: e4m3_scale() of the largest magnitude of the row, with kWeight
/// e4m3_weight_scale(). kFolded: columns of x are multiplied by factors [kCols], powers of two, before; else null. y of
/// Result e4m3: codes. Else code * scale / factor.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL quantise(const Act* __restrict__ x, const bf16* __restrict__ factors, Result* __restrict__ y,
                     Scale* __restrict__ scales) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    const auto values = lanes.load(lanes.row<kCols, kPitch>(x, row));
    const auto result = lanes.row<kCols, kPitch>(y, row);
    if constexpr (kFolded) {
      const auto folded = lanes.row<kCols>(factors);
      const E4m3Row<Result> rounded(
          e4m3_scale(lanes.largest(values, folded, [](float v, float factor) { return magnitude(v * factor); })));
      if (lanes.leads()) scales[row] = from_float<Scale>(rounded.scale);
      lanes.store(result, values, folded, rounded);
    } else {
      const float largest = lanes.largest(values, [](float v) { return magnitude(v); });
      const E4m3Row<Result> rounded(kWeight ? e4m3_weight_scale(largest) : e4m3_scale(largest));
      if (lanes.leads()) scales[row] = from_float<Scale>(rounded.scale);
      lanes.store(result, values, rounded);
    }
  }
}

}  // namespace llmc
