// embedding_forward: from template embedding_forward for run llama-1b (67f153b1f9efd53ce0b214734deeb5f9).
//
// Act = float, kRows = 32768, kCols = 2048, kPitch = 2048, kLanes = 128
//
// 32768 rows of 2048; moves 537.00 MB a launch.

// embedding_forward: out[row] = table[tokens[row]].
#include "device/group.h"

namespace llmc {

using Act = float;

/// tokens [kRows], table [vocabulary, kCols], out [kRows, kCols].
LLMC_BOUNDS(128)
LLMC_KERNEL embedding_forward(const int* __restrict__ tokens, const Act* __restrict__ table, Act* __restrict__ out) {
  const Group<128, Act> lanes;
  for (const int row : lanes.rows(32768)) {
    lanes.store(lanes.row<2048, 2048>(out, row), lanes.row<2048, 2048>(table, tokens[row]), [](float v) { return v; });
  }
}

}  // namespace llmc
