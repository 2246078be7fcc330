// quantise_by_tensor: operands of fp8 products with one scale a tensor, a power of two by which it is divided before it
// is rounded. Operands of the forward pass take e4m3, gradients e5m2 (Micikevicius et al. 2022).
//
// Two kernels a tensor: maxima of its parts, then codes. The second one finds the largest of the maxima itself. As with
// quantise, a device without fp8 products gets code times scale in bf16, which is exact.
#include "compiler/ops/quantising/quantise_by_tensor.h"

#include <fmt/format.h>

#include "compiler/ops/instance.h"
#include "compiler/ops/quantising/quantise.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// Rows that a group of lanes of quantise_by_tensor rounds, so that reading the maxima costs little.
constexpr std::int64_t kRowsOfGroup = 4;

/// x -> largest magnitudes of blocks of its rows
void largest_signature(const Operands& o) {
  o.count(1, 1);
  o.expect(o.out(0).cols <= o.in(0).rows, "at least a row for each maximum");
}

/// x, maxima -> y, scale
void signature(const Operands& o) {
  o.count(2, 2);
  o.same_shape(o.in(0), o.out(0));
  o.expect(o.out(1).cols == 1, "one scale");
}

/// x, maxima -> codes of x transposed, scale, [codes of x]
void transposed_signature(const Operands& o) {
  o.count(2, o.op.outputs.size() == 2 ? 2 : 3);
  const Tensor &x = o.in(0), &y = o.out(0);
  o.expect(y.rows == x.cols && y.cols == x.rows, "%{} is not [{}, {}]", y.name, x.cols, x.rows);
  o.expect(o.out(1).cols == 1, "one scale");
  if (o.op.outputs.size() == 3) o.same_shape(x, o.out(2));
}

std::vector<Work> largest_work(const Context& c) {
  const Tensor &x = c.in(0), &largest = c.out(0);
  return {Instance(c, "largest_magnitude")
              .named(shape_text(x))
              .element(x.dtype)
              .matrix(x, x.rows, "model")
              .integer("kBlocks", largest.cols, kTokens)
              .costs(c.bytes(x) + c.bytes(largest), 1.0 * x.rows * x.cols)
              .rows(largest.cols, x.cols, x.dtype, all_operands(c.op),
                    fmt::format("{} rows of {} in {} blocks", x.rows, x.cols, largest.cols))};
}

std::vector<Work> work(const Context& c) {
  const Tensor &x = c.in(0), &y = c.out(0);
  const DType code = c.op.as<CodeAttributes>().code;
  return {Instance(c, "quantise_by_tensor")
              .named(name_of(code))
              .named(shape_text(x))
              .element(x.dtype)
              .element(code, "Code", "precision.matmul")
              .element(y.dtype, "Result", "precision.matmul")
              .matrix(x, x.rows, "model")
              .integer("kBlocks", c.in(1).cols, kTokens)
              .costs(c.bytes(x) + c.bytes(c.in(1)) + c.bytes(y) + c.bytes(c.out(1)), 3.0 * x.rows * x.cols)
              .rows((x.rows + kRowsOfGroup - 1) / kRowsOfGroup, x.cols, x.dtype, all_operands(c.op),
                    fmt::format("{} rows of {}", x.rows, x.cols))};
}

std::vector<Work> transposed_work(const Context& c) {
  const Op& op = c.op;
  const Tensor& x = c.in(0);
  const DType code = op.as<CodeAttributes>().code;
  const bool straight = op.outputs.size() == 3;
  return {Instance::of_target(c, "quantise_by_tensor_transposed")
              .named(name_of(code))
              .named(shape_text(x))
              .element(x.dtype)
              .element(code, "Code", "precision.matmul")
              .integer("kHeight", x.rows, "model")
              .integer("kWidth", x.cols, "model")
              .integer("kPitch", x.pitch, "model")
              .integer("kBlocks", c.in(1).cols, kTokens)
              .flag("kStraight", straight, "both", "precision.matmul")
              .costs(c.bytes(x) + c.bytes(c.in(1)) + (straight ? 2 : 1) * c.bytes(c.out(0)) + c.bytes(c.out(1)),
                     3.0 * x.rows * x.cols)
              .shaped(transposing_shape(x), fmt::format("{} rows of {}", x.rows, x.cols),
                      {op.inputs[0], op.inputs[1], op.outputs[0], op.outputs[1],
                       straight ? Argument(op.outputs[2]) : "nullptr"})};
}

}  // namespace

std::string CodeAttributes::text() const { return name_of(code); }

constexpr OpRow kLargestMagnitude =
    OperandRow{.signature = largest_signature, .weight_type = reads_bf16, .work = largest_work};

constexpr OpRow kQuantiseByTensor = OperandRow{.signature = signature, .weight_type = reads_bf16, .work = work};

constexpr OpRow kQuantiseByTensorTransposed =
    OperandRow{.signature = transposed_signature, .weight_type = reads_bf16, .work = transposed_work};

}  // namespace llmc::ops
