// column_sum: sums of the columns of dy over each of kBlocks blocks of rows: the first stage of a bias gradient.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// dy [kRows, kCols], partial [kBlocks, kCols].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL column_sum(const Act* __restrict__ dy, float* __restrict__ partial) {
  const Group<kLanes, Act> lanes;
  for (const int block : lanes.rows(kBlocks)) {
    auto sums = lanes.columns<kCols>();
    const int first = static_cast<int>(block * static_cast<long long>(kRows) / kBlocks);
    const int last = static_cast<int>((block + 1) * static_cast<long long>(kRows) / kBlocks);
    for (int row = first; row < last; ++row) {
      lanes.map(sums, lanes.row<kCols, kPitch>(dy, row), [](float& sum, float v) { sum += v; });
    }
    lanes.store(lanes.row<kCols>(partial, block), sums, [](float sum) { return sum; });
  }
}

}  // namespace llmc
