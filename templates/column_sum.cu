// First stage of a bias gradient: sums of the columns of dy over each block of rows.
// dy [kRows, kPitch]; partial [kBlocks, kCols].
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL column_sum(const Act* dy, float* partial) {
  const Group<kLanes> g;
  for (int block : g.rows(kBlocks)) {
    auto sums = g.columns<kCols>(partial + static_cast<long long>(block) * kCols);
    for (int row : g.block(block, kBlocks, kRows)) {
      const auto values = g.load<kCols>(dy + static_cast<long long>(row) * kPitch);
      g.accumulate(sums, [](float v) { return v; }, values);
    }
    g.finish(sums);
  }
}

}  // namespace llmc
