// column_reduce_256: from template column_reduce for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// kBlocks = 32, kCols = 256, kLanes = 1
//
// 32 rows of 256; moves 0.03 MB, 0.01 MFLOP a launch.

// column_reduce_256: out (=|+=) the sum of each column of a matrix of partial sums, from the first row to the last.
#include "device/group.h"

namespace llmc {

constexpr int kSlice = 128;  // columns summed by one group: few columns must make many groups
constexpr int kSlices = 2;

/// partial [kBlocks, kCols], out [kCols]; accumulate: add to out.
LLMC_BOUNDS_RESIDENT(1, 256)  // registers for rows read at once
LLMC_KERNEL column_reduce_256(const float* __restrict__ partial, float* __restrict__ out, int accumulate) {
  const Group<1> lanes;
  for (const int part : lanes.rows(kSlices)) {
    auto sums = lanes.columns<kSlice>();
    lanes.add_rows<32, 256, kSlice>(sums, partial, part);
    lanes.map(lanes.slice<256, kSlice>(out, 0, part), sums,
              [=](float& total, float sum) { total = accumulate ? total + sum : sum; });
  }
}

}  // namespace llmc
