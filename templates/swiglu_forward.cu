// SwiGLU (Shazeer 2020): out = gate * sigmoid(gate) * up. gate_up [kRows, 2 * kPitch]: gate at 0, up at kPitch; out [kRows, kPitch].
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL swiglu_forward(const Act* gate_up, Act* out) {
  const Group<kLanes> g;
  for (int row : g.rows(kRows)) {
    const Act* pair = gate_up + 2LL * row * kPitch;
    const auto gate = g.load<kCols>(pair);
    const auto up = g.load<kCols>(pair + kPitch);
    g.store(out + static_cast<long long>(row) * kPitch, [](float a, float u) { return a * sigmoid(a) * u; }, gate, up);
  }
}

}  // namespace llmc
