// AdamW (Loshchilov and Hutter 2019) with clipping, the copy in the compute dtype and sums for per-parameter norms in one
// pass: g *= clip_scale; p -= lr * decay * p; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
// p -= lr / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + eps). Nothing is touched when the step is skipped.
// master, gradient, exp_avg, exp_avg_sq, copy: flat parameter buffers; weight_partial, update_partial: one sum a chunk.
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL adamw(float* master, const float* gradient, float* exp_avg, float* exp_avg_sq, Act* copy, const Chunk* chunks,
                  int begin, int end, const StepScalars* scalars, const StepResults* results, float* weight_partial,
                  float* update_partial) {
  const Group<kLanes> g;
  const StepScalars s = *scalars;
  const float clip = results->clip_scale;
  const float rate = s.lr / s.bias_correction1;
  const float correction = 1.0f / sqrt(s.bias_correction2);
  const bool skipped = results->skipped != 0;
  for (int i : g.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    float* p = master + chunk.offset;
    float* m = exp_avg + chunk.offset;
    float* v = exp_avg_sq + chunk.offset;
    const float* d = gradient + chunk.offset;
    const float keep = chunk.decay ? 1.0f - s.lr * s.weight_decay : 1.0f;
    const auto update = [=](int e) {
      const float slope = d[e] * clip;
      const float first = multiply_add(s.beta1, m[e] - slope, slope);
      const float second = multiply_add(s.beta2, v[e] - slope * slope, slope * slope);
      m[e] = first;
      v[e] = second;
      const float before = p[e];
      const float after = before * keep - rate * first / (sqrt(second) * correction + s.eps);
      p[e] = after;
      if constexpr (kCopy) copy[chunk.offset + e] = from_float<Act>(after);
      return Two{after * after, (after - before) * (after - before)};
    };
    if (skipped) continue;
    const Two sums = g.sum2_to(chunk.length, update);
    if constexpr (kNorms) {
      if (g.first()) {
        weight_partial[begin + i] = sums.a;
        update_partial[begin + i] = sums.b;
      }
    }
  }
}

}  // namespace llmc
