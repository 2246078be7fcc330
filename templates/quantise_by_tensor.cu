// quantise_by_tensor: a tensor divided by a power of two and rounded to 8 bits; the result is codes, or the numbers
// that codes and scale stand for.
#include "device/fp8.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

/// x, y [kRows, kCols]; largest [kBlocks]: the largest magnitudes of parts of x; scale [1]: code_scale() of the largest
/// of these. y of Result Code: codes. Else code * scale.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL quantise_by_tensor(const Act* __restrict__ x, const float* __restrict__ largest, Result* __restrict__ y,
                               float* __restrict__ scale) {
  const Group<kLanes, Act> lanes;
  const float of_all = code_scale<Code>(lanes.largest(lanes.row<kBlocks>(largest), [](float v) { return v; }));
  const float inverse = 1.0f / of_all;
  if (lanes.alone() && lanes.leads()) scale[0] = of_all;
  for (const int row : lanes.rows(kRows)) {
    lanes.store(lanes.row<kCols, kPitch>(y, row), lanes.row<kCols, kPitch>(x, row), [=](float v) {
      return is_code<Result> ? v * inverse : to_float(from_float<Code>(v * inverse)) * of_all;
    });
  }
}

}  // namespace llmc
