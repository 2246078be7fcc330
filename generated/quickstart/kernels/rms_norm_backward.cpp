// rms_norm_backward: from template rms_norm_backward for run quickstart (274398525d62afeedc289c02dc9a8bde).
//
// Act = float, Residual = float, kRows = 2048, kCols = 256, kPitch = 256, kBlocks = 256, kResidual = false, kRecompute
// = false, kLanes = 1
//
// 2048 rows of 256 in 256 blocks; moves 6.56 MB, 5.24 MFLOP a launch.

// rms_norm_backward: with g = dy * weight, dx = rstd * (g - x * rstd^2 * mean(g * x)) [+ dresidual];
// dweight = sum over rows of dy * x * rstd, as one partial sum for each block of rows.
#include "device/group.h"

namespace llmc {

using Act = float;
using Residual = float;

/// dy, x, dresidual, dx, y [kRows, kCols]; weight [kCols]; rstd [kRows]; dweight_partial [kBlocks, kCols]. dx may be dy
/// or dresidual. kRecompute: y = the forward pass's result, bit for bit. Unused pointers are null.
LLMC_BOUNDS_RESIDENT(1, 768)
LLMC_KERNEL rms_norm_backward(const Act* dy, const Residual* x, const float* weight, const float* rstd,
                              const Act* dresidual, Act* dx, float* dweight_partial, Act* y) {
  const Group<1, Act> lanes;
  const auto scale = lanes.load(lanes.row<256>(weight));
  for (const int block : lanes.rows(256)) {
    auto dweight = lanes.columns<256>();
    const int first = static_cast<int>(block * 2048LL / 256);
    const int last = static_cast<int>((block + 1) * 2048LL / 256);
    for (int row = first; row < last; ++row) {
      const auto gradient = lanes.load(lanes.row<256, 256>(dy, row));
      const auto in = lanes.load(lanes.row<256, 256>(x, row));
      const float r = rstd[row];
      // Work that needs no sum comes before it: after it fewer registers would be left (4,096 columns, sm_100).
      lanes.map(dweight, gradient, in, [=](float& sum, float d, float v) { sum += d * (v * r); });
      const float dot = lanes.sum(gradient, in, scale, [](float d, float v, float w) { return d * w * v; });
      const float projection = dot / 256 * r * r;
      const auto out = lanes.row<256, 256>(dx, row);
      lanes.store(out, gradient, in, scale, [=](float d, float v, float w) { return r * (d * w - v * projection); });
    }
    lanes.store(lanes.row<256>(dweight_partial, block), dweight, [](float sum) { return sum; });
  }
}

}  // namespace llmc
