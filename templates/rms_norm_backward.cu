// Gradient of RMSNorm: dx = rstd * (w dy - x * rstd^2 * mean(w dy x)), plus the residual stream's own gradient;
// dweight = sum over rows of dy * x * rstd, here one partial sum for each block of rows.
// dy, x, dresidual, dx, y [kRows, kPitch]; weight [kCols]; rstd [kRows]; dweight_partial [kBlocks, kCols].
// dx may be dresidual or dy. y is the forward's output again, for the weight gradient that follows.
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL rms_norm_backward(const Act* dy, const Act* x, const float* weight, const float* rstd,
                              const Act* dresidual, Act* dx, float* dweight_partial, Act* y) {
  const Group<kLanes> g;
  const auto w = g.load<kCols>(weight);
  for (int block : g.rows(kBlocks)) {
    auto dweight = g.columns<kCols>(dweight_partial + static_cast<long long>(block) * kCols);
    for (int row : g.block(block, kBlocks, kRows)) {
      const long long at = static_cast<long long>(row) * kPitch;
      const auto gradient = g.load<kCols>(dy + at);
      const auto values = g.load<kCols>(x + at);
      const float r = rstd[row];
      const float dot = g.sum([](float d, float v, float s) { return d * s * v; }, gradient, values, w);
      const float scale = dot * r * r / kCols;
      g.accumulate(dweight, [=](float d, float v) { return d * v * r; }, gradient, values);
      if constexpr (kRecompute) g.store(y + at, [=](float v, float s) { return v * r * s; }, values, w);
      if constexpr (kResidual) {
        const auto residual = g.load<kCols>(dresidual + at);
        g.store(dx + at, [=](float d, float v, float s, float u) { return u + r * (d * s - v * scale); }, gradient,
                values, w, residual);
      } else {
        g.store(dx + at, [=](float d, float v, float s) { return r * (d * s - v * scale); }, gradient, values, w);
      }
    }
    g.finish(dweight);
  }
}

}  // namespace llmc
