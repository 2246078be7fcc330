// rms_norm_backward: with g = dy * weight, dx = rstd * (g - x * rstd^2 * mean(g * x)) [+ dresidual];
// dweight = sum over rows of dy * x * rstd, as one partial sum for each block of rows.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// dy, x, dresidual, dx, y [kRows, kCols]; weight [kCols]; rstd [kRows]; dweight_partial [kBlocks, kCols]. dx may be dy
/// or dresidual. kRecompute: y = the forward pass's result, bit for bit. Unused pointers are null.
LLMC_BOUNDS_RESIDENT(kLanes, 768)
LLMC_KERNEL rms_norm_backward(const Act* dy, const Residual* x, const float* weight, const float* rstd,
                              const Act* dresidual, Act* dx, float* dweight_partial, Act* y) {
  const Group<kLanes, Act> lanes;
  const auto scale = lanes.load(lanes.row<kCols>(weight));
  for (const int block : lanes.rows(kBlocks)) {
    auto dweight = lanes.columns<kCols>();
    const int first = static_cast<int>(block * static_cast<long long>(kRows) / kBlocks);
    const int last = static_cast<int>((block + 1) * static_cast<long long>(kRows) / kBlocks);
    for (int row = first; row < last; ++row) {
      const auto gradient = lanes.load(lanes.row<kCols, kPitch>(dy, row));
      const auto in = lanes.load(lanes.row<kCols, kPitch>(x, row));
      // Read with the others, so that a row waits for memory once.
      [[maybe_unused]] const auto residual = lanes.load_if<kResidual>(lanes.row<kCols, kPitch>(dresidual, row));
      const float r = rstd[row];
      // Work that needs no sum comes before it: after it fewer registers would be left (4,096 columns, sm_100).
      lanes.map(dweight, gradient, in, [=](float& sum, float d, float v) { sum += d * (v * r); });
      if constexpr (kRecompute) {
        lanes.store(lanes.row<kCols, kPitch>(y, row), in, scale, [=](float v, float w) {
          if constexpr (kOnePlus) w += 1.0f;
          return v * r * w;
        });
      }
      const float dot = lanes.sum(gradient, in, scale, [](float d, float v, float w) {
        if constexpr (kOnePlus) w += 1.0f;
        return d * w * v;
      });
      const float projection = dot / kCols * r * r;
      const auto out = lanes.row<kCols, kPitch>(dx, row);
      if constexpr (kResidual) {
        lanes.store(out, gradient, in, scale, residual, [=](float d, float v, float w, float other) {
          if constexpr (kOnePlus) w += 1.0f;
          return other + r * (d * w - v * projection);
        });
      } else {
        lanes.store(out, gradient, in, scale, [=](float d, float v, float w) {
          if constexpr (kOnePlus) w += 1.0f;
          return r * (d * w - v * projection);
        });
      }
    }
    if constexpr (!kUnweighted) {
      lanes.store(lanes.row<kCols>(dweight_partial, block), dweight, [](float sum) { return sum; });
    }
  }
}

}  // namespace llmc
