// quantise: the operands of fp8 products. Each row is divided by a power of two, its scale, and rounded to e4m3, whose
// codes have at most four significant bits (OCP OFP8 1.0; formats of Micikevicius et al. 2022).
//
// A device with fp8 products gets the codes and the scales. For any other, the result is code times scale in bf16,
// which is exact: its bf16 products, whose sums are fp32 too, compute the same numbers.
#include <fmt/format.h>

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

/// w -> y, scales, ones
/// y [columns of w, rows of w] has the codes of w transposed, scales those of its rows, and ones stands for the scales
/// of the rows of y.
void transposed_signature(const Operands& o) {
  o.count(1, 3);
  const Tensor &w = o.in(0), &y = o.out(0);
  o.expect(y.rows == w.cols && y.cols == w.rows, "%{} is not [{}, {}]", y.name, w.cols, w.rows);
  o.expect(o.out(1).cols == w.rows && o.out(2).cols == w.cols, "one scale a row, 1 for each column");
}

DType reads_bf16(const Operands&, std::size_t) { return DType::bf16; }

/// Distinguishes the instances: a step has one for each operand's shape.
std::string shape_text(const Tensor& t) { return fmt::format("{}_{}", t.rows, t.cols); }

std::vector<Work> work(const Context& c) {
  const Op& op = c.op;
  const Tensor &x = c.in(0), &y = c.out(0);
  const bool folded = op.inputs.size() == 2;
  return {
      Instance(c, "quantise")
          .named(shape_text(x))
          .element(x.dtype)
          .element(y.dtype, "Result", "precision.matmul")
          .matrix(x, x.rows, "model")
          .flag("kFolded", folded, "folded", "precision.matmul")
          .costs(c.bytes(x) + c.bytes(y) + c.bytes(c.out(1)) + (folded ? c.bytes(c.in(1)) : 0), 3.0 * x.rows * x.cols)
          .rows(x.rows, x.cols, x.dtype,
                {op.inputs[0], folded ? Argument(op.inputs[1]) : "nullptr", op.outputs[0], op.outputs[1]})};
}

/// A block reads its rows twice, the second time from the cache.
std::vector<Work> transposed_work(const Context& c) {
  const Tensor& w = c.in(0);
  constexpr std::int64_t kThreads = 256, kRowsOfBlock = 32;
  const std::int64_t blocks = (w.rows + kRowsOfBlock - 1) / kRowsOfBlock;
  return {Instance::of_target(c, "quantise_transposed")
              .named(shape_text(w))
              .matrix(w, w.rows, "model")
              .costs(c.bytes(w) + c.bytes(c.out(0)) + c.bytes(c.out(1)) + c.bytes(c.out(2)), 3.0 * w.rows * w.cols)
              .shaped({kThreads, kThreads, blocks}, fmt::format("{} rows of {}", w.rows, w.cols), all_operands(c.op))};
}

}  // namespace

constexpr OpRow kQuantise = OperandRow{.signature = signature, .weight_type = reads_bf16, .work = work};

constexpr OpRow kQuantiseTransposed =
    OperandRow{.signature = transposed_signature, .weight_type = reads_bf16, .work = transposed_work};

}  // namespace llmc::ops
