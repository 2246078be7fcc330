// rescale_rows: e4m3 numbers whose rows had a scale each, rounded for one scale that all of them share.
#include "device/fp8.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

/// x, y [kRows, kCols]: numbers that are codes times a scale, with kFolded divided by factors [kCols], else null;
/// powers of two. shared [1]: the scale.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL rescale_rows(const Act* __restrict__ x, const bf16* __restrict__ factors, const float* __restrict__ shared,
                         Act* __restrict__ y) {
  const Group<kLanes, Act> lanes;
  const E4m3Row<Act> rounded(shared[0]);
  for (const int row : lanes.rows(kRows)) {
    const auto values = lanes.row<kCols, kPitch>(x, row);
    const auto result = lanes.row<kCols, kPitch>(y, row);
    if constexpr (kFolded) {
      lanes.store(result, values, lanes.row<kCols>(factors), rounded);
    } else {
      lanes.store(result, values, rounded);
    }
  }
}

}  // namespace llmc
