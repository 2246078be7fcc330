// scale_rows: each row of a matrix times its factor, in another dtype.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// x, y [kRows, kCols]; factors [kRows]. Zeros of y are positive: a sum over ranks with zeros keeps all bits.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL scale_rows(const Source* __restrict__ x, const float* __restrict__ factors, Result* __restrict__ y) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    const float factor = factors[row];
    lanes.store(lanes.row<kCols, kPitch>(y, row), lanes.row<kCols, kPitch>(x, row),
                [=](float v) { return fma(v, factor, 0.0f); });
  }
}

}  // namespace llmc
