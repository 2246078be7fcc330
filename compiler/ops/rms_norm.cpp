// rms_norm: y = x * rstd * weight (+ residual), rstd = 1 / sqrt(mean(x^2) + eps) (Zhang and Sennrich 2019); or with 1 +
// weight, or without weights, where the input has ones.
#include "compiler/ops/rms_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "compiler/ops/backward.h"
#include "compiler/ops/instance.h"
#include "compiler/ops/quantising/quantise.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// x, weight, [residual] -> y, rstd, [copy of y]
void signature(const Operands& o) {
  const auto& [eps, residual, copy, weight] = o.op.as<RmsNormAttributes>();
  o.expect(residual || !copy, "a copy without a residual");
  o.count(2 + residual, 2 + copy);
  if (residual) o.same_shape(o.in(2), o.out(0));
  if (residual) o.expect(o.in(2).dtype == o.out(0).dtype, "the sum has the residual's dtype");
  if (copy) o.same_shape(o.out(0), o.out(2));
  o.same_shape(o.in(0), o.out(0));
  const bool ones = weight == spec::NormWeight::none && o.in(1).cols >= o.in(0).cols;
  o.expect((ones || o.in(1).cols == o.in(0).cols) && o.out(1).cols == o.in(0).rows,
           "one weight a column, one rstd a row");
}

bool weighted(const Op& op) { return op.as<RmsNormBackwardAttributes>().weight != spec::NormWeight::none; }

/// dy, x, weight, rstd, [dresidual] -> dx, [dweight], [y]
void backward_signature(const Operands& o) {
  const auto& [residual, recompute, weight] = o.op.as<RmsNormBackwardAttributes>();
  o.count(4 + residual, 1 + weighted(o.op) + recompute);
  o.same_shape(o.in(0), o.in(1));
  o.same_shape(o.in(1), o.out(0));
}

/// Of an op without a residual: fuse_residual runs later.
/// dx = rstd * (w dy - x rstd^2 mean(w dy x)), dw += column sums of dy x rstd.
void gradient(Backward& b, const Op& op) {
  const TensorId x = op.inputs[0], weight = op.inputs[1], dy = b.of(op.outputs[0]);
  const spec::NormWeight kind = op.as<RmsNormAttributes>().weight;
  std::vector<TensorId> outputs = {b.part(x)};
  if (kind != spec::NormWeight::none) outputs.push_back(b.of_parameter(weight));
  b.emit(OpKind::rms_norm_backward, op.name + "_backward", {dy, x, weight, op.outputs[1]}, std::move(outputs),
         RmsNormBackwardAttributes{.weight = kind});
}

constexpr int kY = 0, kDx = 0, kDweight = 1;  // outputs
constexpr std::size_t kDresidual = 4;         // input

/// Output of the forward pass's result.
int again(const Op& op) { return 1 + weighted(op); }

int sum_of_weight(const Op& op) { return weighted(op) ? kDweight : kNoSum; }

/// The gradient of the residual stream is one buffer from the loss to the embedding.
TensorId over_the_residual(const Op& op) {
  return op.as<RmsNormBackwardAttributes>().residual ? op.inputs[kDresidual] : kNone;
}

bool can_quantise(const Operands& o, const Quantised& q) {
  return q.output == kY && !q.folded && !o.op.as<RmsNormAttributes>().residual;
}

std::int64_t blocks_of(const Operands& o) { return weighted(o.op) ? o.out(kDweight).rows : row_blocks(o.in(0).rows); }

/// Rows that a block has. Their codes are written transposed, `piece` at once, after `collected` of them.
struct Transposing {
  std::int64_t collected, piece;
  LaunchShape shape;
};

/// Nothing if a block has no memory for a sector of a column, or if blocks begin at rows of which none can be written
/// at once.
std::optional<Transposing> transposing(const Operands& o) {
  const std::int64_t rows = o.in(0).rows, cols = o.in(0).cols, blocks = blocks_of(o), each = rows / blocks;
  const std::int64_t piece = std::gcd(each, 16), collected = std::min<std::int64_t>(each, 32);
  const auto shape = collecting(resident_shape(blocks, cols), collected, cols);
  if (rows % blocks != 0 || piece < 4 || !shape) return {};
  return Transposing{collected, piece, *shape};
}

/// dx is part of the stream; the forward pass's result is an operand of a product and nothing else.
bool backward_can_quantise(const Operands& o, const Quantised& q) {
  if (q.output == kDx) return q.folded && !q.alone && !q.transposed;
  return q.output == again(o.op) && !q.folded && q.alone && (!q.transposed || transposing(o));
}

void give_forward(Op& op) { op.as<RmsNormBackwardAttributes>().recompute = true; }

std::int64_t stream_elements(const Operands& o) {
  return o.op.as<RmsNormAttributes>().residual ? 2 * o.out(0).elements() : o.in(0).elements();
}
std::int64_t backward_stream_elements(const Operands& o) { return o.in(1).elements(); }

std::vector<Work> quantised_work(const Context& c, const QuantisedOperands& q) {
  const Tensor &x = c.in(0), &codes = c.graph.at(q.codes);
  const DType act = c.spec.compute;
  const double numbers = q.alone ? 0 : static_cast<double>(bytes_of(act, x.rows * x.cols));
  return {Instance(c, "rms_norm_forward_quantised")
              .element(act)
              .element(codes.dtype, "Result", "precision.matmul")
              .element(x.dtype, "Residual", kStreamType)
              .matrix(x, x.rows)
              .real("kEps", c.op.as<RmsNormAttributes>().eps, "model.rms_norm_eps")
              .flag("kNumbers", !q.alone, "numbers", "memory.recompute")
              .norm_weight(c.op.as<RmsNormAttributes>().weight)
              .costs(c.bytes(x) + c.bytes(c.in(1)) + numbers + c.bytes(codes) + c.bytes(c.graph.at(q.scales)) +
                         c.bytes(c.out(1)),
                     7.0 * x.rows * x.cols)
              .rows(x.rows, x.cols, x.dtype,
                    {c.op.inputs[0], c.op.inputs[1], q.alone ? "nullptr" : Argument(c.op.outputs[kY]), c.op.outputs[1],
                     q.codes, q.scales})};
}

/// The norm of a layer's result, added to the residual stream: all in one pass over memory.
std::vector<Work> sum_work(const Context& c) {
  const Tensor &x = c.in(0), &sum = c.out(0);
  const bool copy = c.op.as<RmsNormAttributes>().copy;
  return {
      Instance(c, "rms_norm_add")
          .element(x.dtype)
          .element(sum.dtype, "Residual", kStreamType)
          .matrix(x, x.rows)
          .real("kEps", c.op.as<RmsNormAttributes>().eps, "model.rms_norm_eps")
          .flag("kCopy", copy, "copy", kStreamType)
          .norm_weight(c.op.as<RmsNormAttributes>().weight)
          .costs(c.bytes(x) + c.bytes(c.in(1)) + 2 * c.bytes(sum) + c.bytes(c.out(1)) + (copy ? c.bytes(c.out(2)) : 0),
                 5.0 * x.rows * x.cols)
          .rows(x.rows, x.cols, sum.dtype,
                {c.op.inputs[0], c.op.inputs[1], c.op.inputs[2], c.op.outputs[0], c.op.outputs[1],
                 copy ? Argument(c.op.outputs[2]) : "nullptr"})};
}

std::vector<Work> work(const Context& c) {
  if (c.op.as<RmsNormAttributes>().residual) return sum_work(c);
  if (const auto q = quantised(c.op, kY)) return quantised_work(c, *q);
  const Tensor& x = c.in(0);
  Instance instance(c, "rms_norm_forward");
  if (c.out(0).dtype != c.spec.compute) instance.named("of_stream");
  return {instance.element(c.out(0).dtype)
              .element(x.dtype, "Residual", kStreamType)
              .matrix(x, x.rows)
              .real("kEps", c.op.as<RmsNormAttributes>().eps, "model.rms_norm_eps")
              .norm_weight(c.op.as<RmsNormAttributes>().weight)
              .costs(c.bytes(x) + c.bytes(c.in(1)) + c.bytes(c.out(0)) + c.bytes(c.out(1)), 4.0 * x.rows * x.cols)
              .rows(x.rows, x.cols, x.dtype, all_operands(c.op))};
}

std::vector<Work> backward_work(const Context& c) {
  const Op& op = c.op;
  const Tensor& dy = c.in(0);
  const auto& [residual, recompute, weight] = op.as<RmsNormBackwardAttributes>();
  const std::int64_t blocks = blocks_of(c);
  const auto dx = quantised(op, kDx), codes_again = quantised(op, again(op));
  const bool transposed = codes_again && codes_again->shared != kNone;
  double bytes = (2 + residual + (recompute && !codes_again)) * c.bytes(dy) + c.bytes(c.in(1)) + c.bytes(c.in(2)) +
                 c.bytes(c.in(3));
  if (weighted(op)) bytes += c.bytes(c.out(kDweight));
  for (const auto& q : {dx, codes_again})
    if (q) bytes += c.bytes(c.graph.at(q->codes)) + c.bytes(c.graph.at(q->scales));
  if (dx) bytes += c.bytes(c.graph.at(dx->factors));
  if (transposed) bytes += c.bytes(c.graph.at(codes_again->row_scales)) + c.bytes(c.graph.at(codes_again->shared));
  std::vector<Argument> arguments = {op.inputs[0], op.inputs[1], op.inputs[2], op.inputs[3],
                                     residual ? Argument(op.inputs[kDresidual]) : "nullptr"};
  const Argument y = recompute && !codes_again ? Argument(op.outputs[static_cast<std::size_t>(again(op))]) : "nullptr",
                 dweight = weighted(op) ? Argument(op.outputs[kDweight]) : "nullptr";
  const auto given = [](const std::optional<QuantisedOperands>& q, TensorId QuantisedOperands::* id) {
    return q ? Argument(*q.*id) : "nullptr";
  };
  Instance instance(c, dx || codes_again ? "rms_norm_backward_quantised" : "rms_norm_backward");
  instance.element(dy.dtype)
      .element(c.in(1).dtype, "Residual", kStreamType)
      .matrix(dy, dy.rows)
      .integer("kBlocks", blocks, kTokens)
      .flag("kResidual", residual, "residual", "model")
      .flag("kRecompute", recompute, "recompute", "memory.recompute")
      .norm_weight(weight, true);
  if (c.in(1).dtype != c.spec.residual) instance.named("of_result");
  if (dx || codes_again) {
    instance.element(c.graph.at((dx ? dx : codes_again)->codes).dtype, "Result", "precision.matmul")
        .flag("kCodes", dx.has_value(), "codes", "precision.matmul")
        .flag("kRecomputeCodes", codes_again.has_value(), "codes_again", "precision.matmul");
    arguments.insert(
        arguments.end(),
        {given(dx, &QuantisedOperands::factors), op.outputs[kDx], dweight, given(dx, &QuantisedOperands::codes),
         given(dx, &QuantisedOperands::scales), y, given(codes_again, &QuantisedOperands::codes),
         given(codes_again, transposed ? &QuantisedOperands::row_scales : &QuantisedOperands::scales)});
  } else {
    arguments.insert(arguments.end(), {op.outputs[kDx], dweight, y});
  }
  LaunchShape shape = resident_shape(blocks, dy.cols);
  if (transposed) {
    const Transposing how = *transposing(c);
    shape = how.shape;
    instance.collects(how.collected, how.piece);
    arguments.insert(arguments.end(), {codes_again->shared, codes_again->scales});
  }
  return {
      instance.costs(bytes, 10.0 * dy.rows * dy.cols)
          .shaped(shape, fmt::format("{} rows of {} in {} blocks", dy.rows, dy.cols, blocks), std::move(arguments))};
}

}  // namespace

std::string text_of(spec::NormWeight weight) {
  return weight == spec::NormWeight::plain ? "" : weight == spec::NormWeight::none ? " unweighted" : " one_plus";
}

std::string RmsNormAttributes::text() const {
  const std::string flags = flags_text({{"residual", residual}, {"copy", copy}});
  return fmt::format("eps {}{}{}{}", eps, flags.empty() ? "" : " ", flags, text_of(weight));
}

std::string RmsNormBackwardAttributes::text() const {
  const bool one_plus = weight == spec::NormWeight::one_plus, none = weight == spec::NormWeight::none;
  return flags_text({{"residual", residual}, {"recompute", recompute}, {"one_plus", one_plus}, {"unweighted", none}});
}

constexpr OpRow kRmsNorm = ForwardRow{.signature = signature,
                                      .exact = output(1),
                                      .gradient = gradient,
                                      .model_flops = no_products,
                                      .stream_elements = stream_elements,
                                      .can_quantise = can_quantise,
                                      .work = work};

constexpr OpRow kRmsNormBackward = BackwardRow{.signature = backward_signature,
                                               .exact = kNoOutputs,
                                               .give_forward = give_forward,
                                               .row_sum = sum_of_weight,
                                               .overwrites = over_the_residual,
                                               .stream_elements = backward_stream_elements,
                                               .can_quantise = backward_can_quantise,
                                               .work = backward_work};

}  // namespace llmc::ops
