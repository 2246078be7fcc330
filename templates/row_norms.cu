// row_norms: the L2 norm of each row of a matrix.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// x [kRows, kCols]; norms [kRows].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL row_norms(const Act* __restrict__ x, float* __restrict__ norms) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    const float squares = lanes.sum(lanes.row<kCols, kPitch>(x, row), [](float v) { return v * v; });
    if (lanes.leads()) norms[row] = sqrt(squares);
  }
}

}  // namespace llmc
