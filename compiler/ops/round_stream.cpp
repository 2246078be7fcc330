// round_stream: y = x in the compute dtype, for products that read the residual stream itself.
#include "compiler/ops/backward.h"
#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// x -> y
void signature(const Operands& o) {
  o.count(1, 1);
  o.same_shape(o.in(0), o.out(0));
}

/// Both gradients have the compute dtype.
void gradient(Backward& b, const Op& op) { b.seed(op.inputs[0], b.of(op.outputs[0])); }

std::int64_t stream_elements(const Operands& o) { return o.in(0).elements(); }

std::vector<Work> work(const Context& c) {
  const Tensor &x = c.in(0), &y = c.out(0);
  return {Instance(c, "round_stream")
              .element(y.dtype)
              .element(x.dtype, "Residual", kStreamType)
              .matrix(x, x.rows)
              .costs(c.bytes(x) + c.bytes(y), 0)
              .rows(x.rows, x.cols, x.dtype, all_operands(c.op))};
}

}  // namespace

constexpr OpRow kRoundStream = ForwardRow{.signature = signature,
                                          .exact = kNoOutputs,
                                          .gradient = gradient,
                                          .model_flops = no_products,
                                          .stream_elements = stream_elements,
                                          .work = work};

}  // namespace llmc::ops
