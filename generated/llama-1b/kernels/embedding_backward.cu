// embedding_backward: from template embedding_backward for run llama-1b (67f153b1f9efd53ce0b214734deeb5f9).
//
// Act = bf16, kCols = 2048, kPitch = 2048, kLanes = 128
//
// 32768 rows of 2048; moves 671.09 MB, 67.11 MFLOP a launch.

// embedding_backward: adds to each row of dtable that occurs the gradients of its positions, in the order of `order`.
// Each row has one writer, so there are no atomics.
#include "device/group.h"

namespace llmc {

using Act = bf16;

/// dx [positions, kCols]; order [positions]: positions sorted by token; run r of *run_count is order[run_begin[r]] up
/// to order[run_begin[r + 1] - 1], all of token run_token[r]; dtable [vocabulary, kCols], fp32.
LLMC_BOUNDS(128)
LLMC_KERNEL embedding_backward(const Act* __restrict__ dx, const int* __restrict__ order,
                               const int* __restrict__ run_begin, const int* __restrict__ run_token,
                               const int* __restrict__ run_count, float* __restrict__ dtable) {
  const Group<128, Act> lanes;
  for (const int run : lanes.rows(*run_count)) {
    auto sums = lanes.columns<2048>();
    for (int i = run_begin[run]; i < run_begin[run + 1]; ++i) {
      lanes.map(sums, lanes.row<2048, 2048>(dx, order[i]), [](float& sum, float v) { sum += v; });
    }
    lanes.map(lanes.row<2048, 2048>(dtable, run_token[run]), sums, [](float& total, float sum) { total += sum; });
  }
}

}  // namespace llmc
