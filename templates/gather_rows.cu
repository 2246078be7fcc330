// gather_rows: out[i] = x[rows[i]].
#include "device/group.h"
#include "params.h"

namespace llmc {

/// x [any, kCols], rows [kRows], out [kRows, kCols].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL gather_rows(const Act* __restrict__ x, const int* __restrict__ rows, Act* __restrict__ out) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    lanes.store(lanes.row<kCols, kPitch>(out, row), lanes.row<kCols, kPitch>(x, rows[row]), [](float v) { return v; });
  }
}

}  // namespace llmc
