// gather_rows: from template gather_rows for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// Act = float, kRows = 8, kCols = 256, kPitch = 256, kLanes = 1
//
// 8 rows of 256; moves 0.02 MB a launch.

// gather_rows: out[i] = x[rows[i]].
#include "device/group.h"

namespace llmc {

using Act = float;

/// x [any, kCols], rows [kRows], out [kRows, kCols].
LLMC_BOUNDS(1)
LLMC_KERNEL gather_rows(const Act* __restrict__ x, const int* __restrict__ rows, Act* __restrict__ out) {
  const Group<1, Act> lanes;
  for (const int row : lanes.rows(8)) {
    lanes.store(lanes.row<256, 256>(out, row), lanes.row<256, 256>(x, rows[row]), [](float v) { return v; });
  }
}

}  // namespace llmc
