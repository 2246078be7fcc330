// rms_norm: y = x * rstd * weight, rstd = 1 / sqrt(mean(x^2) + eps) (Zhang and Sennrich 2019).
#include "compiler/ops/rms_norm.h"

#include <fmt/format.h>

#include "compiler/ops/backward.h"
#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// x, weight -> y, rstd
void signature(const Operands& o) {
  o.count(2, 2);
  o.same_shape(o.in(0), o.out(0));
  o.expect(o.in(1).cols == o.in(0).cols && o.out(1).cols == o.in(0).rows, "one weight a column, one rstd a row");
}

/// dy, x, weight, rstd, [dresidual] -> dx, dweight, [y]
void backward_signature(const Operands& o) {
  const auto [residual, recompute] = o.op.as<RmsNormBackwardAttributes>();
  o.count(4 + residual, 2 + recompute);
  o.same_shape(o.in(0), o.in(1));
  o.same_shape(o.in(1), o.out(0));
}

/// dx = rstd * (w dy - x rstd^2 mean(w dy x)), dw += column sums of dy x rstd.
void gradient(Backward& b, const Op& op) {
  const TensorId x = op.inputs[0], weight = op.inputs[1], dy = b.of(op.outputs[0]);
  b.emit(OpKind::rms_norm_backward, op.name + "_backward", {dy, x, weight, op.outputs[1]},
         {b.part(x), b.of_parameter(weight)}, RmsNormBackwardAttributes{});
}

/// The gradient of the residual stream is one buffer from the loss to the embedding.
TensorId over_the_residual(const Op& op) {
  return op.as<RmsNormBackwardAttributes>().residual ? op.inputs.back() : kNone;
}

void give_forward(Op& op) { op.as<RmsNormBackwardAttributes>().recompute = true; }

std::int64_t stream_elements(const Operands& o) { return o.in(0).elements(); }
std::int64_t backward_stream_elements(const Operands& o) { return o.in(1).elements(); }

std::vector<Work> work(const Context& c) {
  const Tensor& x = c.in(0);
  return {Instance(c, "rms_norm_forward")
              .element(c.out(0).dtype)
              .element(x.dtype, "Residual", kStreamType)
              .matrix(x, x.rows)
              .real("kEps", c.op.as<RmsNormAttributes>().eps, "model.rms_norm_eps")
              .costs(c.bytes(x) + c.bytes(c.in(1)) + c.bytes(c.out(0)) + c.bytes(c.out(1)), 4.0 * x.rows * x.cols)
              .rows(x.rows, x.cols, x.dtype, all_operands(c.op))};
}

std::vector<Work> backward_work(const Context& c) {
  const Op& op = c.op;
  const Tensor &dy = c.in(0), &partial = c.out(1);
  const auto [residual, recompute] = op.as<RmsNormBackwardAttributes>();
  const double passes = 2 + residual + recompute;  // dy, dx, and the flags' extra one
  return {Instance(c, "rms_norm_backward")
              .element(dy.dtype)
              .element(c.in(1).dtype, "Residual", kStreamType)
              .matrix(dy, dy.rows)
              .integer("kBlocks", partial.rows, kTokens)
              .flag("kResidual", residual, "residual", "model")
              .flag("kRecompute", recompute, "recompute", "memory.recompute")
              .costs(passes * c.bytes(dy) + c.bytes(c.in(1)) + c.bytes(partial) + c.bytes(c.in(2)) + c.bytes(c.in(3)),
                     10.0 * dy.rows * dy.cols)
              .shaped(resident_shape(partial.rows, dy.cols),
                      fmt::format("{} rows of {} in {} blocks", dy.rows, dy.cols, partial.rows),
                      {op.inputs[0], op.inputs[1], op.inputs[2], op.inputs[3],
                       residual ? Argument(op.inputs.back()) : "nullptr", op.outputs[0], op.outputs[1],
                       recompute ? Argument(op.outputs.back()) : "nullptr"})};
}

}  // namespace

std::string RmsNormAttributes::text() const { return fmt::format("eps {}", eps); }

std::string RmsNormBackwardAttributes::text() const {
  return flags_text({{"residual", residual}, {"recompute", recompute}});
}

constexpr OpRow kRmsNorm = ForwardRow{.signature = signature,
                                      .exact = output(1),
                                      .gradient = gradient,
                                      .model_flops = no_products,
                                      .stream_elements = stream_elements,
                                      .work = work};

constexpr OpRow kRmsNormBackward = BackwardRow{.signature = backward_signature,
                                               .exact = kNoOutputs,
                                               .give_forward = give_forward,
                                               .row_sum = 1,
                                               .overwrites = over_the_residual,
                                               .stream_elements = backward_stream_elements,
                                               .work = backward_work};

}  // namespace llmc::ops
