// embedding_backward: adds to each row of dtable that occurs the gradients of its positions, in the order of `order`.
// Each row has one writer, so there are no atomics.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// dx [positions, kCols]; order [positions]: positions sorted by token; run r of *run_count is order[run_begin[r]] up
/// to order[run_begin[r + 1] - 1], all of token run_token[r]; dtable [vocabulary, kCols], fp32.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL embedding_backward(const Act* __restrict__ dx, const int* __restrict__ order,
                               const int* __restrict__ run_begin, const int* __restrict__ run_token,
                               const int* __restrict__ run_count, float* __restrict__ dtable) {
  const Group<kLanes, Act> lanes;
  for (const int run : lanes.rows(*run_count)) {
    auto sums = lanes.columns<kCols>();
    for (int i = run_begin[run]; i < run_begin[run + 1]; ++i) {
      lanes.map(sums, lanes.row<kCols, kPitch>(dx, order[i]), [](float& sum, float v) { sum += v; });
    }
    lanes.map(lanes.row<kCols, kPitch>(dtable, run_token[run]), sums, [](float& total, float sum) {
      if constexpr (kScaled) sum *= kScale;
      total += sum;
    });
  }
}

}  // namespace llmc
