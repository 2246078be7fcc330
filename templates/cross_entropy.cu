// Softmax cross-entropy, loss and gradient in one pass over a row: loss = log(sum exp(logits)) - logits[target];
// the logits become their gradient (softmax - onehot) * loss_scale. A target of -1 has loss 0 and gradient 0.
// logits [kRows, kPitch], kCols of them real; targets, losses [kRows]. All in fp32, whatever the logits are stored in.
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL cross_entropy(Act* logits, const int* targets, float* losses, const StepScalars* scalars) {
  const Group<kLanes> g;
  for (int row : g.rows(kRows)) {
    Act* line = logits + static_cast<long long>(row) * kPitch;
    const auto values = g.stream<kCols>(line);
    const int target = targets[row];
    const float largest = g.max([](float v) { return v; }, values);
    const float total = g.sum([=](float v) { return exp(v - largest); }, values);
    const float wanted = target < 0 ? 0.0f : to_float(line[target]);
    if (g.first()) losses[row] = target < 0 ? 0.0f : log(total) + largest - wanted;
    if constexpr (kGradient) {
      const float scale = target < 0 ? 0.0f : scalars->loss_scale;
      const float share = scale / total;
      g.store(line, [=](float v) { return exp(v - largest) * share; }, values);
      g.sync();
      if (g.first() && target >= 0) line[target] = from_float<Act>(exp(wanted - largest) * share - scale);
    }
  }
}

}  // namespace llmc
