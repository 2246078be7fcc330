// column_reduce: out (=|+=) the sum of each column of a matrix of partial sums, from the first row to the last.
#include "device/group.h"
#include "params.h"

namespace llmc {

constexpr int kSlice = 128;  // columns summed by one group: few columns must make many groups
constexpr int kSlices = (kCols + kSlice - 1) / kSlice;

/// partial [kBlocks, kCols], out [kCols]; accumulate: add to out.
LLMC_BOUNDS_RESIDENT(kLanes, 256)  // registers for rows read at once
LLMC_KERNEL column_reduce(const float* __restrict__ partial, float* __restrict__ out, int accumulate) {
  const Group<kLanes> lanes;
  for (const int part : lanes.rows(kSlices)) {
    auto sums = lanes.columns<kSlice>();
    lanes.add_rows<kBlocks, kCols, kSlice>(sums, partial, part);
    lanes.map(lanes.slice<kCols, kSlice>(out, 0, part), sums,
              [=](float& total, float sum) { total = accumulate ? total + sum : sum; });
  }
}

}  // namespace llmc
