// add: a + b. fuse_residual and fuse_gradient_sum fold every one into the op before it.
#include "compiler/ops/backward.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// a, b -> a + b
void signature(const Operands& o) {
  o.count(2, 1);
  o.same_shape(o.in(0), o.in(1));
  o.same_shape(o.in(0), o.out(0));
}

void gradient(Backward& b, const Op& op) {
  const TensorId dy = b.of(op.outputs[0]);
  b.seed(op.inputs[0], dy);
  b.seed(op.inputs[1], dy);
}

}  // namespace

constexpr OpRow kAdd = ForwardRow{.signature = signature,
                                  .exact = kNoOutputs,
                                  .writes_stream = true,
                                  .gradient = gradient,
                                  .model_flops = no_products,
                                  .work = fused_away};

}  // namespace llmc::ops
