// swiglu: s = silu(gate) * up (Shazeer 2020), gate and up concatenated in one row.
#include "compiler/ops/swiglu.h"

#include "compiler/ops/backward.h"
#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// gate_up -> s
void signature(const Operands& o) {
  o.count(1, 1);
  o.expect(o.in(0).cols >= 2 * o.out(0).cols, "gate and up side by side");
}

/// ds, gate_up -> dgate_up, [s]
void backward_signature(const Operands& o) {
  o.count(2, 1 + o.op.as<SwigluBackwardAttributes>().recompute);
  o.same_shape(o.in(1), o.out(0));
}

/// With silu(g) = g sigmoid(g): dg = ds u sigmoid(g) (1 + g (1 - sigmoid(g))), du = ds silu(g).
void gradient(Backward& b, const Op& op) {
  const TensorId ds = b.of(op.outputs[0]);
  b.emit(OpKind::swiglu_backward, op.name + "_backward", {ds, op.inputs[0]}, {b.part(op.inputs[0])},
         SwigluBackwardAttributes{});
}

void give_forward(Op& op) { op.as<SwigluBackwardAttributes>().recompute = true; }

Instance instance(const Context& c, const char* name, const Tensor& one, const Tensor& pair) {
  Instance result(c, name);
  result.element(one.dtype)
      .integer("kRows", one.rows, kTokens)
      .integer("kCols", one.cols, kFfn)
      .integer("kPitch", pair.pitch / 2, kFfn);
  return result;
}

std::vector<Work> work(const Context& c) {
  const Tensor& s = c.out(0);
  return {instance(c, "swiglu_forward", s, c.in(0))
              .costs(3 * c.bytes(s), 6.0 * s.rows * s.cols)
              .rows(s.rows, s.cols, s.dtype, all_operands(c.op))};
}

std::vector<Work> backward_work(const Context& c) {
  const Op& op = c.op;
  const Tensor& ds = c.in(0);
  const bool recompute = op.as<SwigluBackwardAttributes>().recompute;
  return {instance(c, "swiglu_backward", ds, c.in(1))
              .flag("kRecompute", recompute, "recompute", "memory.recompute")
              .costs((5 + recompute) * c.bytes(ds), 12.0 * ds.rows * ds.cols)
              .rows(ds.rows, ds.cols, ds.dtype,
                    {op.inputs[0], op.inputs[1], op.outputs[0], recompute ? Argument(op.outputs.back()) : "nullptr"})};
}

}  // namespace

std::string SwigluBackwardAttributes::text() const { return flags_text({{"recompute", recompute}}); }

constexpr OpRow kSwiglu = ForwardRow{
    .signature = signature, .exact = kNoOutputs, .gradient = gradient, .model_flops = no_products, .work = work};

constexpr OpRow kSwigluBackward = BackwardRow{
    .signature = backward_signature, .exact = kNoOutputs, .give_forward = give_forward, .work = backward_work};

}  // namespace llmc::ops
