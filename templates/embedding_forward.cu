// embedding_forward: out[row] = table[tokens[row]].
#include "device/group.h"
#include "params.h"

namespace llmc {

/// tokens [kRows], table [vocabulary, kCols], out [kRows, kCols].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL embedding_forward(const int* __restrict__ tokens, const Act* __restrict__ table, Act* __restrict__ out) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    lanes.store(lanes.row<kCols, kPitch>(out, row), lanes.row<kCols, kPitch>(table, tokens[row]), [](float v) {
      if constexpr (kScaled) v *= kScale;
      return v;
    });
  }
}

}  // namespace llmc
