// Gradient of SwiGLU: dgate = dout * up * s * (1 + gate * (1 - s)), dup = dout * gate * s, with s = sigmoid(gate).
// dout, out [kRows, kPitch]; gate_up, dgate_up [kRows, 2 * kPitch], which may be the same memory. The padding of dgate_up
// becomes zero, since the next product reads it. out is the forward's output again, for the weight gradient that follows.
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL swiglu_backward(const Act* dout, const Act* gate_up, Act* dgate_up, Act* out) {
  const Group<kLanes> g;
  for (int row : g.rows(kRows)) {
    const long long at = static_cast<long long>(row) * kPitch;
    const auto gate = g.load<kCols>(gate_up + 2 * at);
    const auto up = g.load<kCols>(gate_up + 2 * at + kPitch);
    const auto gradient = g.load<kCols>(dout + at);
    Act* dgate = dgate_up + 2 * at;
    if constexpr (kRecompute) {
      g.store3(dgate, dgate + kPitch, out + at,
               [](float a, float u, float d) {
                 const float s = sigmoid(a);
                 return Three{d * u * s * (1.0f + a * (1.0f - s)), d * a * s, a * s * u};
               },
               gate, up, gradient);
    } else {
      g.store2(dgate, dgate + kPitch,
               [](float a, float u, float d) {
                 const float s = sigmoid(a);
                 return Two{d * u * s * (1.0f + a * (1.0f - s)), d * a * s};
               },
               gate, up, gradient);
    }
    g.zero_padding<kCols, kPitch>(dgate);
    g.zero_padding<kCols, kPitch>(dgate + kPitch);
  }
}

}  // namespace llmc
