// embedding_backward: from template embedding_backward for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// Act = float, kCols = 256, kPitch = 256, kLanes = 1
//
// 2048 rows of 256; moves 6.29 MB, 0.52 MFLOP a launch.

// embedding_backward: adds to each row of dtable that occurs the gradients of its positions, in the order of `order`.
// Each row has one writer, so there are no atomics.
#include "device/group.h"

namespace llmc {

using Act = float;

/// dx [positions, kCols]; order [positions]: positions sorted by token; run r of *run_count is order[run_begin[r]] up
/// to order[run_begin[r + 1] - 1], all of token run_token[r]; dtable [vocabulary, kCols], fp32.
LLMC_BOUNDS(1)
LLMC_KERNEL embedding_backward(const Act* __restrict__ dx, const int* __restrict__ order,
                               const int* __restrict__ run_begin, const int* __restrict__ run_token,
                               const int* __restrict__ run_count, float* __restrict__ dtable) {
  const Group<1, Act> lanes;
  for (const int run : lanes.rows(*run_count)) {
    auto sums = lanes.columns<256>();
    for (int i = run_begin[run]; i < run_begin[run + 1]; ++i) {
      lanes.map(sums, lanes.row<256, 256>(dx, order[i]), [](float& sum, float v) { sum += v; });
    }
    lanes.map(lanes.row<256, 256>(dtable, run_token[run]), sums, [](float& total, float sum) { total += sum; });
  }
}

}  // namespace llmc
