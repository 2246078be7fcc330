// quantise: the operands of fp8 products. Each row is divided by a power of two, its scale, and rounded to e4m3, whose
// codes have at most four significant bits (OCP OFP8 1.0; formats of Micikevicius et al. 2022).
//
// A device with fp8 products gets the codes and the scales. For any other, the result is code times scale in bf16,
// which is exact: its bf16 products, whose sums are fp32 too, compute the same numbers.
#include "compiler/ops/quantising/quantise.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// x, [factors] -> y, scales
/// factors: one a column of x. x is multiplied by them before it is rounded, and a y of numbers is divided by them
/// after it. They are the scales of the other operand's rows, so that its codes serve without them.
void signature(const Operands& o) {
  o.count(o.op.inputs.size() == 1 ? 1 : 2, 2);
  o.same_shape(o.in(0), o.out(0));
  o.expect(o.out(1).cols == o.in(0).rows, "one scale a row");
  if (o.op.inputs.size() == 2) o.expect(o.in(1).cols == o.in(0).cols, "one factor a column");
}

bool writes_both(const Op& transposed) { return transposed.outputs.size() == 5; }

/// w -> y, scales, ones, [codes, their scales]
/// y [columns of w, rows of w] has the codes of w transposed, scales those of its rows, and ones stands for the scales
/// of the rows of y. The last two are the results of quantise for w.
void transposed_signature(const Operands& o) {
  o.count(1, writes_both(o.op) ? 5 : 3);
  const Tensor &w = o.in(0), &y = o.out(0);
  o.expect(y.rows == w.cols && y.cols == w.rows, "%{} is not [{}, {}]", y.name, w.cols, w.rows);
  o.expect(o.out(1).cols == w.rows && o.out(2).cols == w.cols, "one scale a row, 1 for each column");
  if (!writes_both(o.op)) return;
  o.same_shape(w, o.out(3));
  o.expect(o.out(4).cols == w.rows, "one scale a row of the codes");
}

/// scales -> the largest
void largest_scale_signature(const Operands& o) {
  o.count(1, 1);
  o.expect(o.out(0).cols == 1, "one scale");
}

/// y, scales, [factors] -> shared y, shared scale; or codes, scales, [factors] -> transposed codes, shared scale,
/// scales Gives all rows of a quantised y the largest of their scales, so that a product may sum over them: codes are
/// divided by a power of two and rounded once more, which changes those alone that become subnormal. Codes are
/// transposed too, and the last output has the scale of each of their rows: the shared one, divided by the factor.
void share_scale_signature(const Operands& o) {
  const bool codes = o.in(0).dtype == DType::e4m3;
  o.count(o.op.inputs.size() == 2 ? 2 : 3, codes ? 3 : 2);
  const Tensor &x = o.in(0), &y = o.out(0);
  o.expect(o.in(1).cols == x.rows && o.out(1).cols == 1, "one scale a row, one for all");
  if (o.op.inputs.size() == 3) o.expect(o.in(2).cols == x.cols, "one factor a column");
  if (!codes) return o.same_shape(x, y);
  o.expect(y.rows == x.cols && y.cols == x.rows, "%{} is not [{}, {}]", y.name, x.cols, x.rows);
  o.expect(o.out(2).cols == x.cols, "a scale for each row of the transposed codes");
}

bool is_weight(const Tensor& t) { return t.role == Role::parameter || t.role == Role::copy; }

std::vector<Work> work(const Context& c) {
  const Op& op = c.op;
  const Tensor &x = c.in(0), &y = c.out(0);
  const bool folded = op.inputs.size() == 2;
  return {
      Instance(c, "quantise")
          .named(shape_text(x))
          .element(x.dtype)
          .element(y.dtype, "Result", "precision.matmul")
          .element(c.out(1).dtype, "Scale", "precision.matmul")
          .matrix(x, x.rows, "model")
          .flag("kFolded", folded, "folded", "precision.matmul")
          .flag("kWeight", is_weight(x), "weight", "precision.matmul")
          .costs(c.bytes(x) + c.bytes(y) + c.bytes(c.out(1)) + (folded ? c.bytes(c.in(1)) : 0), 3.0 * x.rows * x.cols)
          .rows(x.rows, x.cols, DType::f32,  // two vectors a lane, so that more rows are read at once
                {op.inputs[0], folded ? Argument(op.inputs[1]) : "nullptr", op.outputs[0], op.outputs[1]})};
}

/// A block reads its part of the rows twice, the second time from the cache.
std::vector<Work> transposed_work(const Context& c) {
  const Tensor& w = c.in(0);
  constexpr std::int64_t kThreads = 256, kRowsOfBlock = 64, kCluster = 8;
  const std::int64_t blocks = (w.rows + kRowsOfBlock - 1) / kRowsOfBlock * kCluster;
  double bytes = c.bytes(w);
  for (std::size_t i = 0; i < c.op.outputs.size(); ++i) bytes += c.bytes(c.out(i));
  std::vector<Argument> arguments = all_operands(c.op);
  if (!writes_both(c.op)) arguments.insert(arguments.end(), 2, "nullptr");
  return {Instance::of_target(c, "quantise_transposed")
              .named(shape_text(w))
              .integer("kHeight", w.rows, "model")
              .integer("kWidth", w.cols, "model")
              .integer("kPitch", w.pitch, "model")
              .integer("kCluster", kCluster, "precision.matmul")
              .flag("kStraight", writes_both(c.op), "both", "precision.matmul")
              .costs(bytes, 3.0 * w.rows * w.cols)
              .shaped({kThreads, kThreads, blocks, kCluster}, fmt::format("{} rows of {}", w.rows, w.cols),
                      std::move(arguments))};
}

Work largest_of(const Context& c, TensorId scales, TensorId largest) {
  const Tensor& of = c.graph.at(scales);
  return Instance(c, "largest_scale")
      .named(fmt::to_string(of.cols))
      .integer("kCols", of.cols, kTokens)
      .costs(c.bytes(of), 1.0 * of.cols)
      .rows(1, of.cols, of.dtype, {scales, largest});
}

std::vector<Work> largest_scale_work(const Context& c) { return {largest_of(c, c.op.inputs[0], c.op.outputs[0])}; }

/// The largest scale is found first.
std::vector<Work> share_scale_work(const Context& c) {
  const Op& op = c.op;
  const Tensor &x = c.in(0), &y = c.out(0), &scales = c.in(1);
  const bool folded = op.inputs.size() == 3, codes = x.dtype == DType::e4m3;
  const Argument factors = folded ? Argument(op.inputs[2]) : "nullptr";
  const double bytes = c.bytes(x) + c.bytes(y) + c.bytes(scales) + (folded ? c.bytes(c.in(2)) : 0);
  std::vector<Work> work = {largest_of(c, op.inputs[1], op.outputs[1])};
  if (!codes) {
    work.push_back(Instance(c, "rescale_rows")
                       .named(shape_text(x))
                       .element(x.dtype)
                       .matrix(x, x.rows, "model")
                       .flag("kFolded", folded, "folded", "precision.matmul")
                       .costs(bytes, 3.0 * x.rows * x.cols)
                       .rows(x.rows, x.cols, x.dtype, {op.inputs[0], factors, op.outputs[1], op.outputs[0]}));
    return work;
  }
  work.push_back(Instance::of_target(c, "transpose_codes")
                     .named(shape_text(x))
                     .integer("kHeight", x.rows, "model")
                     .integer("kWidth", x.cols, "model")
                     .integer("kPitch", x.pitch, "model")
                     .flag("kFolded", folded, "folded", "precision.matmul")
                     .costs(bytes + c.bytes(c.out(2)), 2.0 * x.rows * x.cols)
                     .shaped(transposing_shape(x), fmt::format("{} rows of {}", x.rows, x.cols),
                             {op.inputs[0], op.inputs[1], factors, op.outputs[1], op.outputs[0], op.outputs[2]}));
  return work;
}

}  // namespace

DType reads_bf16(const Operands&, std::size_t) { return DType::bf16; }

std::string shape_text(const Tensor& t) { return fmt::format("{}_{}", t.rows, t.cols); }

LaunchShape transposing_shape(const Tensor& x) {
  constexpr std::int64_t kThreads = 256, kTile = 128;
  const auto tiles = [](std::int64_t n) { return (n + kTile - 1) / kTile; };
  return {kThreads, kThreads, tiles(x.rows) * tiles(x.cols)};
}

std::optional<LaunchShape> collecting(LaunchShape shape, std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kMost = 226 << 10;  // of a block on sm_90, without what the exchange of its lanes takes
  shape.shared = shape.threads / shape.lanes * rows * cols;
  if (shape.shared > kMost) return {};
  return shape;
}

bool only_transposes(const graph::Graph& graph, const Op& op) {
  return op.kind == OpKind::share_scale && op.inputs.size() == 2 && graph.at(op.inputs[0]).dtype == DType::e4m3;
}

std::size_t inputs_of(const Quantised& q) { return static_cast<std::size_t>(q.folded) + 2 * q.transposed; }

std::size_t own_inputs(const Op& op) {
  std::size_t count = op.inputs.size();
  for (const Quantised& q : op.quantised) count -= inputs_of(q);
  return count;
}

std::size_t own_outputs(const Op& op) {
  std::size_t count = op.outputs.size();
  for (const Quantised& q : op.quantised) count -= q.alone ? 1 : 2;
  return count;
}

std::optional<QuantisedOperands> quantised(const Op& op, int output) {
  std::size_t input = own_inputs(op), next = own_outputs(op);
  for (const Quantised& q : op.quantised) {
    const TensorId factors = q.folded ? op.inputs.at(input++) : kNone;
    const TensorId row_scales = q.transposed ? op.inputs.at(input++) : kNone;
    const TensorId shared = q.transposed ? op.inputs.at(input++) : kNone;
    const TensorId codes = op.outputs.at(q.alone ? static_cast<std::size_t>(q.output) : next++);
    const TensorId scales = op.outputs.at(next++);
    if (q.output == output) return QuantisedOperands{codes, scales, factors, q.alone, row_scales, shared};
  }
  return {};
}

constexpr OpRow kLargestScale = OperandRow{.signature = largest_scale_signature, .work = largest_scale_work};

constexpr OpRow kShareScale = OperandRow{.signature = share_scale_signature, .work = share_scale_work};

constexpr OpRow kQuantise =
    OperandRow{.signature = signature, .weight_type = reads_bf16, .rounds_rows = true, .work = work};

constexpr OpRow kQuantiseTransposed = OperandRow{.signature = transposed_signature,
                                                 .weight_type = reads_bf16,
                                                 .straight = OpKind::quantise,
                                                 .work = transposed_work};

}  // namespace llmc::ops
