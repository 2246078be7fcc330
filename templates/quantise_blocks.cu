// quantise_blocks: blocks of 32 elements, each divided by a power of two and rounded to e4m3; the result is codes, or
// the numbers that codes and scales stand for.
#include "device/block_scales.h"
#include "device/fp8.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

/// Scale of a block by its largest magnitude, as its 8 bits state it.
LLMC_HD inline float block_scale(float largest) { return to_float(from_float<e8m0>(e4m3_scale(largest))); }

/// x, y [kRows, kCols]. A block is 32 columns of a row, with kDown 32 rows of a column. y of Result e4m3: codes, and
/// the scales at block_scale_offset() for each row of x, with kDown for each column; what pads their tiles is not
/// written. Else code * scale; scales is null.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL quantise_blocks(const Act* __restrict__ x, Result* __restrict__ y, e8m0* __restrict__ scales) {
  const Group<kLanes, Act> lanes;
  if constexpr (kDown) {
    constexpr int kOfColumn = kRows / kBlockElements, kSlices = (kCols + kBlockColumns - 1) / kBlockColumns;
    for (const int part : lanes.rows(kOfColumn * kSlices)) {
      const int block = part / kSlices, slice = part % kSlices;
      const int first = block * kBlockElements, last = first + kBlockElements;
      auto scale = lanes.columns<kBlockColumns>();
      for (int row = first; row < last; ++row) {
        lanes.map(lanes.slice<kCols, kBlockColumns>(x, row, slice), scale, [](float v, float& largest) {
          const float found = magnitude_or_infinity(v);
          largest = found > largest ? found : largest;
        });
      }
      lanes.map(scale, [](float& s) { s = block_scale(s); });
      if constexpr (is_code<Result>) {
        lanes.map(scale, lanes.indices(), [&](float s, int c) {
          const int column = slice * kBlockColumns + c;
          if (column < kCols) scales[block_scale_offset(column, block, kOfColumn)] = from_float<e8m0>(s);
        });
      }
      for (int row = first; row < last; ++row) {
        lanes.store(lanes.slice<kCols, kBlockColumns>(y, row, slice), lanes.slice<kCols, kBlockColumns>(x, row, slice),
                    scale, [](float v, float s) { return E4m3Row<Result>(s)(v); });
      }
    }
  } else {
    constexpr int kOfRow = kCols / kBlockElements;
    for (const int block : lanes.rows(kRows * kOfRow)) {
      const auto values = lanes.load(lanes.row<kBlockElements>(x, block));
      const float scale = block_scale(lanes.largest(values, [](float v) { return magnitude_or_infinity(v); }));
      if constexpr (is_code<Result>) {
        if (lanes.leads()) scales[block_scale_offset(block / kOfRow, block % kOfRow, kOfRow)] = from_float<e8m0>(scale);
      }
      lanes.store(lanes.row<kBlockElements>(y, block), values, E4m3Row<Result>(scale));
    }
  }
}

}  // namespace llmc
