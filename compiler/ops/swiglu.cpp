// swiglu: s = act(gate) * up (Shazeer 2020), gate and up concatenated in one row, or s = act(x) without a gate; act is
// silu, GELU by its tanh formula (Hendrycks and Gimpel 2016), or ReLU squared (So et al. 2021).
#include "compiler/ops/swiglu.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "compiler/ops/backward.h"
#include "compiler/ops/instance.h"
#include "compiler/ops/quantising/quantise.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// gate_up -> s
void signature(const Operands& o) {
  o.count(1, 1);
  if (o.op.as<SwigluAttributes>().gated)
    o.expect(o.in(0).cols >= 2 * o.out(0).cols, "gate and up side by side");
  else
    o.same_shape(o.in(0), o.out(0));
}

/// ds, gate_up -> dgate_up, [s]
void backward_signature(const Operands& o) {
  o.count(2, 1 + o.op.as<SwigluBackwardAttributes>().recompute);
  o.same_shape(o.in(1), o.out(0));
}

/// dg = ds u act'(g), du = ds act(g). silu(g) = g sigmoid(g) has the slope sigmoid(g) (1 + g (1 - sigmoid(g))). GELU's
/// formula is g sigmoid(h), h = sqrt(8 / pi) (g + 0.044715 g^3): its slope is sigmoid(h) (1 + g (1 - sigmoid(h)) h').
void gradient(Backward& b, const Op& op) {
  const TensorId ds = b.of(op.outputs[0]);
  b.emit(OpKind::swiglu_backward, op.name + "_backward", {ds, op.inputs[0]}, {b.part(op.inputs[0])},
         SwigluBackwardAttributes{.act = op.as<SwigluAttributes>().act, .gated = op.as<SwigluAttributes>().gated});
}

void give_forward(Op& op) { op.as<SwigluBackwardAttributes>().recompute = true; }

constexpr int kGated = 0, kDgateUp = 0, kAgain = 1;  // outputs

bool can_quantise(const Operands& o, const Quantised& q) {
  return q.output == kGated && !q.folded && o.op.as<SwigluAttributes>().gated;
}

/// Columns up to which a lane of the backward kernel has registers for its part of all results.
constexpr std::int64_t kMostBackwardColumns = 16384;

/// Rows whose codes are written at once, transposed.
constexpr std::int64_t kCollected = 16;

/// Shape of a kernel that does. A lane has one vector of a row, as far as a block has lanes, and reads the next row
/// ahead. Nothing if a block has no memory for the rows.
std::optional<LaunchShape> transposing(const Tensor& ds) {
  return collecting(launch_shape(ds.rows / kCollected, ds.cols, ds.dtype, 1), kCollected, ds.cols);
}

/// The forward pass's result is an operand of a product and nothing else. Its codes come with the gradients'.
bool backward_can_quantise(const Operands& o, const Quantised& q) {
  if (o.in(0).cols > kMostBackwardColumns || !o.op.as<SwigluBackwardAttributes>().gated) return false;
  if (q.output == kDgateUp) return q.folded && !q.transposed;
  if (q.transposed && (o.in(0).rows % kCollected != 0 || !transposing(o.in(0)))) return false;
  return q.output == kAgain && !q.folded && q.alone && quantised(o.op, kDgateUp);
}

/// one: a tensor of as many columns as the result; pair: gate and up, or what has no gate. `a`: the attributes of
/// either op.
template <class A>
Instance instance(const Context& c, const char* name, const A& a, const Tensor& one, const Tensor& pair) {
  Instance result(c, name);
  result.element(pair.dtype)
      .integer("kRows", one.rows, kTokens)
      .integer("kCols", one.cols, kFfn)
      .integer("kPitch", a.gated ? pair.pitch / 2 : pair.pitch, kFfn);
  if (a.act == spec::HiddenAct::gelu_pytorch_tanh) result.flag("kGelu", true, "gelu", "model.hidden_act");
  if (a.act == spec::HiddenAct::relu2) result.flag("kRelu2", true, "relu2", "model.hidden_act");
  return result;
}

/// FLOPs of an element, with GELU's cubic.
double flops(spec::HiddenAct act, double silu, double gelu) {
  return act == spec::HiddenAct::gelu_pytorch_tanh ? gelu : silu;
}

std::vector<Work> work(const Context& c) {
  const Tensor &s = c.out(0), &pair = c.in(0);
  const double bytes = static_cast<double>(bytes_of(pair.dtype, s.rows * s.cols));
  const auto q = quantised(c.op, kGated);
  const auto& own = c.op.as<SwigluAttributes>();
  if (!q)
    return {instance(c, own.gated ? "swiglu_forward" : "activation_forward", own, s, pair)
                .costs((2 + own.gated) * bytes, flops(own.act, 6, 9) * s.rows * s.cols)
                .rows(s.rows, s.cols, s.dtype, all_operands(c.op))};
  const Tensor& codes = c.graph.at(q->codes);
  return {instance(c, "swiglu_forward_quantised", own, s, pair)
              .element(codes.dtype, "Result", "precision.matmul")
              .flag("kNumbers", !q->alone, "numbers", "memory.recompute")
              .costs((2 + !q->alone) * bytes + c.bytes(codes) + c.bytes(c.graph.at(q->scales)), 9.0 * s.rows * s.cols)
              .rows(s.rows, s.cols, pair.dtype,
                    {c.op.inputs[0], q->alone ? "nullptr" : Argument(c.op.outputs[kGated]), q->codes, q->scales})};
}

std::vector<Work> quantised_backward_work(const Context& c, const QuantisedOperands& q) {
  const Op& op = c.op;
  const Tensor &ds = c.in(0), &codes = c.graph.at(q.codes);
  const auto& own = op.as<SwigluBackwardAttributes>();
  const bool recompute = own.recompute;
  const auto again = quantised(op, kAgain);
  double bytes = (3 + 2 * !q.alone + (recompute && !again)) * c.bytes(ds) + c.bytes(codes) +
                 c.bytes(c.graph.at(q.scales)) + c.bytes(c.graph.at(q.factors));
  if (again) bytes += c.bytes(c.graph.at(again->codes)) + c.bytes(c.graph.at(again->scales));
  Instance kernel = instance(c, "swiglu_backward_quantised", own, ds, c.in(1));
  kernel.element(codes.dtype, "Result", "precision.matmul")
      .flag("kNumbers", !q.alone, "numbers", "precision.matmul")
      .flag("kRecompute", recompute, "recompute", "memory.recompute")
      .flag("kRecomputeCodes", again.has_value(), "codes_again", "precision.matmul");
  std::vector<Argument> arguments = {op.inputs[0],
                                     op.inputs[1],
                                     q.factors,
                                     q.alone ? "nullptr" : Argument(op.outputs[kDgateUp]),
                                     q.codes,
                                     q.scales,
                                     recompute && !again ? Argument(op.outputs[kAgain]) : "nullptr",
                                     again ? Argument(again->codes) : "nullptr",
                                     again ? Argument(again->scales) : "nullptr"};
  LaunchShape shape = launch_shape(ds.rows, ds.cols, ds.dtype);
  if (again && again->shared != kNone) {
    bytes += c.bytes(c.graph.at(again->row_scales)) + c.bytes(c.graph.at(again->shared));
    shape = *transposing(ds);
    kernel.collects(kCollected, kCollected);
    arguments.back() = again->row_scales;
    arguments.insert(arguments.end(), {again->shared, again->scales});
  }
  return {kernel.costs(bytes, 18.0 * ds.rows * ds.cols)
              .shaped(shape, fmt::format("{} rows of {}", ds.rows, ds.cols), std::move(arguments))};
}

std::vector<Work> backward_work(const Context& c) {
  const Op& op = c.op;
  if (const auto q = quantised(op, kDgateUp)) return quantised_backward_work(c, *q);
  const Tensor& ds = c.in(0);
  const auto& own = op.as<SwigluBackwardAttributes>();
  const bool recompute = own.recompute;
  return {instance(c, own.gated ? "swiglu_backward" : "activation_backward", own, ds, c.in(1))
              .flag("kRecompute", recompute, "recompute", "memory.recompute")
              .costs(((own.gated ? 5 : 3) + recompute) * c.bytes(ds), flops(own.act, 12, 20) * ds.rows * ds.cols)
              .rows(ds.rows, ds.cols, ds.dtype,
                    {op.inputs[0], op.inputs[1], op.outputs[0], recompute ? Argument(op.outputs[kAgain]) : "nullptr"})};
}

}  // namespace

std::string SwigluAttributes::text() const {
  using enum spec::HiddenAct;
  return flags_text({{"gelu", act == gelu_pytorch_tanh}, {"relu2", act == relu2}, {"ungated", !gated}});
}

std::string SwigluBackwardAttributes::text() const {
  const std::string others = SwigluAttributes{act, gated}.text();
  return flags_text({{"recompute", recompute}}) + (recompute && !others.empty() ? " " : "") + others;
}

constexpr OpRow kSwiglu = ForwardRow{.signature = signature,
                                     .exact = kNoOutputs,
                                     .gradient = gradient,
                                     .model_flops = no_products,
                                     .can_quantise = can_quantise,
                                     .work = work};

constexpr OpRow kSwigluBackward = BackwardRow{.signature = backward_signature,
                                              .exact = kNoOutputs,
                                              .give_forward = give_forward,
                                              .can_quantise = backward_can_quantise,
                                              .work = backward_work};

}  // namespace llmc::ops
