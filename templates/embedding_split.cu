// embedding_split: out[row] = the masters of table row tokens[row], which are split (device/split.h).
#include "device/group.h"
#include "params.h"

namespace llmc {

/// tokens [kRows]; copy, rest, ties [vocabulary, kCols]: the table; out [kRows, kCols].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL embedding_split(const int* __restrict__ tokens, const bf16* __restrict__ copy,
                            const rest16* __restrict__ rest, const ties8* __restrict__ ties, float* __restrict__ out) {
  const Group<kLanes, bf16> lanes;
  for (const int row : lanes.rows(kRows)) {
    const long long at = static_cast<long long>(tokens[row]) * kPitch;
    lanes.store(lanes.row<kCols, kPitch>(out, row), lanes.split(copy, rest, ties, at, kCols), [](float v) {
      if constexpr (kScaled) v *= kScale;
      return v;
    });
  }
}

}  // namespace llmc
