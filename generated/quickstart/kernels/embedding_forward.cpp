// embedding_forward: from template embedding_forward for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// Act = float, kRows = 2048, kCols = 256, kPitch = 256, kLanes = 1
//
// 2048 rows of 256; moves 4.20 MB a launch.

// embedding_forward: out[row] = table[tokens[row]].
#include "device/group.h"

namespace llmc {

using Act = float;

/// tokens [kRows], table [vocabulary, kCols], out [kRows, kCols].
LLMC_BOUNDS(1)
LLMC_KERNEL embedding_forward(const int* __restrict__ tokens, const Act* __restrict__ table, Act* __restrict__ out) {
  const Group<1, Act> lanes;
  for (const int row : lanes.rows(2048)) {
    lanes.store(lanes.row<256, 256>(out, row), lanes.row<256, 256>(table, tokens[row]), [](float v) { return v; });
  }
}

}  // namespace llmc
