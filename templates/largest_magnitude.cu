// largest_magnitude: the largest magnitude in each of kBlocks blocks of a tensor's rows.
#include "device/fp8.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

/// x [kRows, kCols]; largest [kBlocks]: infinity of a block with an element that is not finite.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL largest_magnitude(const Act* __restrict__ x, float* __restrict__ largest) {
  const Group<kLanes, Act> lanes;
  for (const int block : lanes.rows(kBlocks)) {
    auto most = lanes.sums();
    const int first = static_cast<int>(block * static_cast<long long>(kRows) / kBlocks);
    const int last = static_cast<int>((block + 1) * static_cast<long long>(kRows) / kBlocks);
    for (int row = first; row < last; ++row) {
      lanes.map(most, lanes.row<kCols, kPitch>(x, row), [](float& m, float v) {
        const float found = magnitude_or_infinity(v);
        m = found > m ? found : m;
      });
    }
    const float found = lanes.most(most);
    if (lanes.leads()) largest[block] = found;
  }
}

}  // namespace llmc
