// column_reduce_to_32_2048: from template column_reduce for run llama-1b (67f153b1f9efd53ce0b214734deeb5f9).
//
// kBlocks = 32, kCols = 65536, kLanes = 32
//
// 1024 rows of 2048; moves 8.65 MB, 2.10 MFLOP a launch.

// column_reduce_to_32_2048: out (=|+=) the sum of each column of a matrix of partial sums, from the first row to the
// last.
#include "device/group.h"

namespace llmc {

constexpr int kSlice = 128;  // columns summed by one group: few columns must make many groups
constexpr int kSlices = 512;

/// partial [kBlocks, kCols], out [kCols]; accumulate: add to out.
LLMC_BOUNDS_RESIDENT(32, 256)  // registers for rows read at once
LLMC_KERNEL column_reduce_to_32_2048(const float* __restrict__ partial, float* __restrict__ out, int accumulate) {
  const Group<32> lanes;
  for (const int part : lanes.rows(kSlices)) {
    auto sums = lanes.columns<kSlice>();
    lanes.add_rows<32, 65536, kSlice>(sums, partial, part);
    lanes.map(lanes.slice<65536, kSlice>(out, 0, part), sums,
              [=](float& total, float sum) { total = accumulate ? total + sum : sum; });
  }
}

}  // namespace llmc
