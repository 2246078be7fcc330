// Second stage of a column reduction: out (= or +=) sum over the blocks, in order. partial [kBlocks, kCols]; out [kCols].
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL column_reduce(const float* partial, float* out, int accumulate) {
  const Group<kLanes> g;
  g.each(kCols, [=](int column) {
    float total = 0.0f;
    for (int block = 0; block < kBlocks; ++block) total += partial[block * kCols + column];
    out[column] = accumulate ? out[column] + total : total;
  });
}

}  // namespace llmc
