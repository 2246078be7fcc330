// RMSNorm (Zhang and Sennrich 2019): y = x * rstd * weight, rstd = 1 / sqrt(mean(x^2) + eps).
// x, y [kRows, kPitch]; weight [kCols] fp32; rstd [kRows] fp32, kept for the backward pass.
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL rms_norm_forward(const Act* x, const float* weight, Act* y, float* rstd) {
  const Group<kLanes> g;
  const auto w = g.load<kCols>(weight);
  for (int row : g.rows(kRows)) {
    const long long at = static_cast<long long>(row) * kPitch;
    const auto values = g.load<kCols>(x + at);
    const float mean = g.sum([](float v) { return v * v; }, values) / kCols;
    const float r = 1.0f / sqrt(mean + kEps);
    g.store(y + at, [=](float v, float s) { return v * r * s; }, values, w);
    if (g.first()) rstd[row] = r;
  }
}

}  // namespace llmc
