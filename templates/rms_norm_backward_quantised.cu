// rms_norm_backward_quantised: with g = dy * weight, dx = rstd * (g - x * rstd^2 * mean(g * x)) [+ dresidual];
// dweight = sum over rows of dy * x * rstd, as one partial sum for each block of rows; rows of dx and of the forward
// pass's result in e4m3.
//
// Codes of the forward pass's result may be written transposed. A block collects up to 32 rows in shared memory, so
// that it writes whole sectors of 32 bytes: 64 KiB with 2,048 columns, three blocks of 256 lanes an SM. Without, a
// launch of its own would read and write a byte an element more, 2 of 14.
#include "device/fp8.h"
#include "device/group.h"
#include "params.h"

namespace llmc {

/// dy, x, dresidual, dx, codes, y, y_codes [kRows, kCols]; weight, factors [kCols]; rstd, scales, y_scales [kRows];
/// dweight_partial [kBlocks, kCols]. dx may be dy or dresidual.
///
/// kCodes: codes and scales are those that quantise makes of dx, whose columns are multiplied by factors before they
/// are rounded. kRecompute: y = the forward pass's result, bit for bit, or, with kRecomputeCodes, its codes. Unused
/// pointers are null.
///
/// kCollected > 1: so many rows are collected before their codes are written transposed, kPiece at once. y_scales are
/// then known, y_codes is [kCols, kRows], and shared_scale, the largest of y_scales, becomes that of all its rows, the
/// transposed_scales [kCols].
LLMC_BOUNDS_RESIDENT(kLanes, kCollected > 1 ? 768 : 1024)
LLMC_KERNEL rms_norm_backward_quantised(const Act* dy, const Residual* x, const float* weight, const float* rstd,
                                        const Act* dresidual, const bf16* factors, Act* dx, float* dweight_partial,
                                        Result* codes, float* scales, Act* y, Result* y_codes,
                                        float* y_scales LLMC_FURTHER_OPERANDS) {
  const Group<kLanes, Act> lanes;
  [[maybe_unused]] auto collected = lanes.collected<kCollected, kCols>();
  if constexpr (kCollected > 1) {
    if (lanes.alone()) lanes.store(lanes.row<kCols>(transposed_scales), [=] { return shared_scale[0]; });
  }
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
      lanes.map(dweight, gradient, in, [=](float& sum, float d, float v) { sum += d * (v * r); });
      auto computed = lanes.columns<kCols, Act>();  // the forward pass's result, then dx
      if constexpr (kRecomputeCodes) {
        lanes.store(computed, in, scale, [=](float v, float w) {
          if constexpr (kOnePlus) w += 1.0f;
          return v * r * w;
        });
        if constexpr (kCollected > 1) {
          lanes.store(lanes.row<kCols>(collected.row((row - first) % kCollected)), lanes.load(computed),
                      E4m3Row<Result>(y_scales[row]));
        } else {
          const auto result = lanes.load(computed);
          const E4m3Row<Result> rounded(e4m3_scale(lanes.largest(result, [](float v) { return magnitude(v); })));
          lanes.store(lanes.row<kCols, kPitch>(y_codes, row), result, rounded);
          if (lanes.leads()) y_scales[row] = rounded.scale;
        }
      } else if constexpr (kRecompute) {
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
      if constexpr (kResidual) {
        lanes.store(computed, gradient, in, scale, residual, [=](float d, float v, float w, float other) {
          if constexpr (kOnePlus) w += 1.0f;
          return other + r * (d * w - v * projection);
        });
      } else {
        lanes.store(computed, gradient, in, scale, [=](float d, float v, float w) {
          if constexpr (kOnePlus) w += 1.0f;
          return r * (d * w - v * projection);
        });
      }
      const auto values = lanes.load(computed);
      if constexpr (kCodes) {
        const auto folded = lanes.row<kCols>(factors);
        const E4m3Row<Result> rounded(
            e4m3_scale(lanes.largest(values, folded, [](float v, float factor) { return magnitude(v * factor); })));
        if (lanes.leads()) scales[row] = rounded.scale;
        lanes.store(lanes.row<kCols, kPitch>(codes, row), values, folded, rounded);
      }
      lanes.store(lanes.row<kCols, kPitch>(dx, row), values, [](float v) { return v; });
      if constexpr (kCollected > 1) {
        const int count = (row - first) % kCollected + 1;
        if (count == kCollected || row + 1 == last)
          lanes.store_transposed<kPiece, kRows>(y_codes, collected, row + 1 - count, count, y_scales, shared_scale[0]);
      }
    }
    if constexpr (!kUnweighted) {
      lanes.store(lanes.row<kCols>(dweight_partial, block), dweight, [](float sum) { return sum; });
    }
  }
}

}  // namespace llmc
