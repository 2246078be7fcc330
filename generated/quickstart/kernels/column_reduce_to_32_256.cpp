// column_reduce_to_32_256: from template column_reduce for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// kBlocks = 8, kCols = 8192, kLanes = 1
//
// 256 rows of 256; moves 0.29 MB, 0.07 MFLOP a launch.

// column_reduce_to_32_256: out (=|+=) the sum of each column of a matrix of partial sums, from the first row to the
// last.
#include "device/group.h"

namespace llmc {

constexpr int kSlice = 128;  // columns summed by one group: few columns must make many groups
constexpr int kSlices = 64;

/// partial [kBlocks, kCols], out [kCols]; accumulate: add to out.
LLMC_BOUNDS_RESIDENT(1, 256)  // registers for rows read at once
LLMC_KERNEL column_reduce_to_32_256(const float* __restrict__ partial, float* __restrict__ out, int accumulate) {
  const Group<1> lanes;
  for (const int part : lanes.rows(kSlices)) {
    auto sums = lanes.columns<kSlice>();
    lanes.add_rows<8, 8192, kSlice>(sums, partial, part);
    lanes.map(lanes.slice<8192, kSlice>(out, 0, part), sums,
              [=](float& total, float sum) { total = accumulate ? total + sum : sum; });
  }
}

}  // namespace llmc
