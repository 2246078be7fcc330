// activation_backward: dx = dout * act'(x) of an MLP without a gate.
#include "device/group.h"
#include "params.h"

namespace llmc {

/// dout, x, dx, out [kRows, kCols]. dx may be x. kRecompute: out = the forward pass's result, bit for bit; otherwise
/// null.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL activation_backward(const Act* dout, const Act* x, Act* dx, Act* out) {
  const Group<kLanes, Act> lanes;
  for (const int row : lanes.rows(kRows)) {
    const auto gradient = lanes.row<kCols, kPitch>(dout, row);
    const auto in = lanes.row<kCols, kPitch>(x, row);
    const auto slope = lanes.result<kRows, kCols, kPitch>(dx, row);
    if constexpr (kRecompute) {
      lanes.map(gradient, in, slope, lanes.result<kRows, kCols, kPitch>(out, row),
                [](float d, float v, float& to, float& y) {
                  const Activated act = activated<kGelu, kRelu2>(v);
                  to = d * act.slope;
                  y = act.value;
                });
    } else {
      lanes.map(gradient, in, slope, [](float d, float v, float& to) { to = d * activated<kGelu, kRelu2>(v).slope; });
    }
  }
}

}  // namespace llmc
