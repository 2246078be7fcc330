// rms_norm_backward: from template rms_norm_backward for run llama-1b (67f153b1f9efd53ce0b214734deeb5f9).
//
// Act = bf16, Residual = float, kRows = 32768, kCols = 2048, kPitch = 2048, kBlocks = 1024, kResidual = false,
// kRecompute = false, kLanes = 256
//
// 32768 rows of 2048 in 1024 blocks; moves 545.40 MB, 671.09 MFLOP a launch.

// rms_norm_backward: with g = dy * weight, dx = rstd * (g - x * rstd^2 * mean(g * x)) [+ dresidual];
// dweight = sum over rows of dy * x * rstd, as one partial sum for each block of rows.
#include "device/group.h"

namespace llmc {

using Act = bf16;
using Residual = float;

/// dy, x, dresidual, dx, y [kRows, kCols]; weight [kCols]; rstd [kRows]; dweight_partial [kBlocks, kCols]. dx may be dy
/// or dresidual. kRecompute: y = the forward pass's result, bit for bit. Unused pointers are null.
LLMC_BOUNDS_RESIDENT(256, 768)
LLMC_KERNEL rms_norm_backward(const Act* dy, const Residual* x, const float* weight, const float* rstd,
                              const Act* dresidual, Act* dx, float* dweight_partial, Act* y) {
  const Group<256, Act> lanes;
  const auto scale = lanes.load(lanes.row<2048>(weight));
  for (const int block : lanes.rows(1024)) {
    auto dweight = lanes.columns<2048>();
    const int first = static_cast<int>(block * 32768LL / 1024);
    const int last = static_cast<int>((block + 1) * 32768LL / 1024);
    for (int row = first; row < last; ++row) {
      const auto gradient = lanes.load(lanes.row<2048, 2048>(dy, row));
      const auto in = lanes.load(lanes.row<2048, 2048>(x, row));
      const float r = rstd[row];
      // Work that needs no sum comes before it: after it fewer registers would be left (4,096 columns, sm_100).
      lanes.map(dweight, gradient, in, [=](float& sum, float d, float v) { sum += d * (v * r); });
      const float dot = lanes.sum(gradient, in, scale, [](float d, float v, float w) { return d * w * v; });
      const float projection = dot / 2048 * r * r;
      const auto out = lanes.row<2048, 2048>(dx, row);
      lanes.store(out, gradient, in, scale, [=](float d, float v, float w) { return r * (d * w - v * projection); });
    }
    lanes.store(lanes.row<2048>(dweight_partial, block), dweight, [](float sum) { return sum; });
  }
}

}  // namespace llmc
