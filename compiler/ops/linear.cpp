// linear: y = scale x W^T (+ bias) (+ residual), a matrix product; and the two products of its backward pass.
#include "compiler/ops/linear.h"

#include <fmt/format.h>

#include "compiler/ops/attention/attention.h"
#include "compiler/ops/backward.h"
#include "compiler/ops/quantising/quantise_blocks.h"
#include "compiler/ops/rows.h"
#include "math/tiles/fits.h"
#include "spec/targets.h"

namespace llmc::ops {
namespace {

/// Whether the operands are codes, whose scales are inputs 2 and 3: a number for each row of the first, and for each
/// row of the second; one for all of either; or one for each block along the sum.
bool scaled(const Operands& o) { return has_codes(o.in(0).dtype); }

bool by_blocks(const Operands& o) { return scaled(o) && o.in(2).dtype == DType::byte; }

/// Whether both operands are stored along the sum, transposed if need be. Codes of blocks lie as numbers do.
bool along_sum(const Operands& o) { return scaled(o) && !by_blocks(o); }

/// Checks the scales. a_down, b_down: the sum is over the rows of the operand as it is stored.
void scales(const Operands& o, bool a_down = false, bool b_down = false) {
  if (by_blocks(o)) {
    for (const auto& [i, down] : {std::pair(0, a_down), std::pair(1, b_down)}) {
      const Tensor& codes = o.in(i);
      o.expect(o.in(2 + i).cols == block_scale_bytes(codes.rows, codes.cols, down), "one scale a block of %{}",
               codes.name);
    }
    return;
  }
  for (std::size_t i = 0; i < 2; ++i)
    o.expect(o.in(2 + i).cols == o.in(i).rows || o.in(2 + i).cols == 1, "one scale a row of %{}, or one for all",
             o.in(i).name);
}

void product_shape(const Operands& o, std::int64_t m, std::int64_t n, const Tensor& d) {
  o.expect(o.rows(d) == m && d.cols == n, "result %{} is [{}, {}], not [{}, {}]", d.name, o.rows(d), d.cols, m, n);
}

/// x, weight, [scales of x, scales of weight], [bias], [residual] -> y
void signature(const Operands& o) {
  const auto [bias, residual, scale] = o.op.as<LinearAttributes>();
  o.expect(!bias || scale == 1, "no bias with a scale");
  o.count(2 + 2 * scaled(o) + bias + residual, 1);
  if (scaled(o)) scales(o);
  o.expect(o.in(0).cols == o.in(1).cols, "x and weight differ in width");
  product_shape(o, o.rows(o.in(0)), o.in(1).rows, o.out(0));
  if (bias) o.expect(o.in(2 + 2 * scaled(o)).cols == o.in(1).rows, "one bias a row of the weight");
  if (residual) {
    const Tensor& c = o.graph.at(o.op.inputs.back());
    o.same_shape(c, o.out(0));
    o.expect(c.dtype == o.out(0).dtype, "%{} and %{} differ in dtype", c.name, o.out(0).name);
  }
}

/// dy, weight, [scales of blocks of either], [residual] -> dx; or dy, transposed weight, scales of dy, scales of the
/// transposed weight, [residual] -> dx
void dgrad_signature(const Operands& o) {
  const bool residual = o.op.as<LinearAttributes>().residual;
  if (residual) o.same_shape(o.graph.at(o.op.inputs.back()), o.out(0));
  if (along_sum(o)) {
    o.count(4 + residual, 1);
    scales(o);
    o.expect(o.in(0).cols == o.in(1).cols, "dy and the transposed weight differ in width");
    return product_shape(o, o.rows(o.in(0)), o.in(1).rows, o.out(0));
  }
  o.count(2 + 2 * scaled(o) + residual, 1);
  if (scaled(o)) scales(o, false, true);
  o.expect(o.in(0).cols == o.in(1).rows, "dy and weight differ in width");
  product_shape(o, o.rows(o.in(0)), o.in(1).cols, o.out(0));
}

/// dy, x, [scales of blocks of either] -> dweight; or transposed dy, transposed x, scales of the rows of both ->
/// dweight
void wgrad_signature(const Operands& o) {
  o.expect(o.out(0).dtype == DType::f32, "weight gradients accumulate in fp32");
  if (along_sum(o)) {
    o.count(4, 1);
    scales(o);
    o.expect(o.in(0).cols == o.in(1).cols, "transposed dy and x differ in width");
    return product_shape(o, o.in(0).rows, o.in(1).rows, o.out(0));
  }
  o.count(2 + 2 * scaled(o), 1);
  if (scaled(o)) scales(o, true, true);
  o.expect(o.rows(o.in(0)) == o.rows(o.in(1)), "dy and x differ in rows");
  o.expect(o.out(0).rows == o.in(0).cols && o.out(0).cols == o.in(1).cols, "dweight is [columns of dy, columns of x]");
}

/// Both operands of a product have one dtype, but for gradients in e5m2; a bias has that of the result, or with codes
/// bf16, which cuBLASLt requires.
DType weight_type(const Operands& o, std::size_t i) {
  if (i == 1) return scaled(o) ? DType::e4m3 : o.in(0).dtype;
  return scaled(o) ? DType::bf16 : o.out(0).dtype;
}

/// dW += scale dy^T x, db += column sums of dy, dx = scale dy W.
void gradient(Backward& b, const Op& op) {
  const ScaleAttributes scaled{op.as<LinearAttributes>().scale};
  const TensorId x = op.inputs[0], weight = op.inputs[1], dy = b.of(op.outputs[0]);
  b.emit(OpKind::linear_wgrad, op.name + "_wgrad", {dy, x}, {b.of_parameter(weight)}, scaled);
  if (op.as<LinearAttributes>().bias)
    b.emit(OpKind::column_sum, op.name + "_bgrad", {dy}, {b.of_parameter(op.inputs[2])});
  b.emit(OpKind::linear_dgrad, op.name + "_dgrad", {dy, weight}, {b.part(x)}, LinearAttributes{.scale = scaled.scale});
}

/// The gradient of the residual stream is one buffer, to which the product adds.
TensorId dgrad_over_the_residual(const Op& op) { return op.as<LinearAttributes>().residual ? op.inputs.back() : kNone; }

InputSet column_makers(const Op& op) { return input(1) | (op.as<LinearAttributes>().bias ? input(2) : kNoInputs); }

/// Counts a multiplication and an addition for each element of the checkpoint's weight.
double model_flops(const Operands& o) {
  const Tensor& weight = o.in(1);
  std::int64_t rows = 0;
  const Tensor& parameter = weight.role == Role::parameter ? weight : o.graph.at(weight.partner);
  for (const ParameterPiece& piece : parameter.pieces) rows += piece.size;
  return 2.0 * static_cast<double>(rows * weight.cols);
}

std::int64_t stream_elements(const Operands& o) {
  return o.op.as<LinearAttributes>().residual ? 2 * o.out(0).elements() : 0;
}

/// Distinguishes the products of layers that precision.fp8 leaves in bf16 from those of the others, on codes.
const char* suffix(const Context& c) {
  const bool may_have_codes =
      c.region.block == Block::layer && c.region.trains() &&
      (row_of(c.op.kind).multiplies != Multiplies::dy_and_x || c.spec.has_fp8_weight_gradients());
  return spec::multiplies_codes(c.spec) && may_have_codes && !scaled(c) ? "_bf16" : "";
}

Scaling scaling(const Context& c) {
  if (!scaled(c)) return Scaling::none;
  if (by_blocks(c)) return Scaling::blocks;
  return c.spec.matmul == spec::Matmul::fp8_tensor ? Scaling::tensors : Scaling::rows;
}

/// Returns the product of a and b; `shape` has m, n, k and the transpositions.
Work product(const Context& c, std::string name, GemmShape shape) {
  const Tensor &a = c.in(0), &b = c.in(1), &d = c.out(0);
  name += suffix(c);
  shape.operand = b.dtype;
  shape.e5m2_a = a.dtype == DType::e5m2;
  shape.result = d.dtype;
  shape.pitch_a = a.pitch;
  shape.pitch_b = b.pitch;
  shape.pitch_d = d.pitch;
  shape.scaling = scaling(c);
  if (along_sum(c))
    shape.fast_accumulation = c.spec.fp8.accumulates_fast(row_of(c.op.kind).multiplies != Multiplies::x_and_weight);
  shape.tf32 = c.spec.matmul == spec::Matmul::tf32 && !c.region.is_audit();
  shape.tiles = products_in_tiles(c.spec, b.dtype) && fits_tiles(shape);
  // dx adds to its own buffer in every micro-batch; a weight gradient to that of earlier ones.
  const bool in_place = shape.accumulates && row_of(c.op.kind).multiplies == Multiplies::dy_and_weight;
  Work work{.call = Call::product,
            .product = {.name = std::move(name), .shape = shape},
            .adds = shape.accumulates && !in_place};
  work.product.flops = work.flops = shape.flops();
  work.product.bytes = work.bytes = shape.bytes();
  // A launch that adds reads its result; the first one of a step does not.
  const double launches = static_cast<double>(c.launches()), adding = in_place ? 1 : (launches - 1) / launches;
  if (shape.accumulates) work.bytes += static_cast<double>(shape.d().bytes()) * adding;
  work.arguments = {Argument(c.op.inputs[0]).as("a"), Argument(c.op.inputs[1]).as("b")};
  if (shape.bias) work.arguments.push_back(Argument(c.op.inputs[2 + 2 * scaled(c)]).as("bias"));
  if (shape.residual) work.arguments.push_back(Argument(c.op.inputs.back()).as("c"));
  work.arguments.push_back(Argument(c.op.outputs[0]).as("d"));
  if (shape.accumulates) work.arguments.push_back(Argument(in_place ? "true" : c.adds()).as("accumulate"));
  if (scaled(c)) {
    work.arguments.push_back(Argument(c.op.inputs[2]).as("scale_a"));
    work.arguments.push_back(Argument(c.op.inputs[3]).as("scale_b"));
  }
  return work;
}

std::vector<Work> work(const Context& c) {
  const auto [bias, residual, scale] = c.op.as<LinearAttributes>();
  return {product(c, c.op.name + "_forward",
                  {.m = c.rows(c.in(0)),
                   .n = c.in(1).rows,
                   .k = c.in(1).cols,
                   .transpose_b = true,
                   .alpha = static_cast<float>(scale),
                   .bias = bias,
                   .residual = residual})};
}

std::vector<Work> dgrad_work(const Context& c) {
  const auto [bias, residual, scale] = c.op.as<LinearAttributes>();
  const auto alpha = static_cast<float>(scale);
  const std::int64_t m = c.rows(c.in(0)), rows = c.in(1).rows, cols = c.in(1).cols;
  if (along_sum(c))
    return {product(c, c.op.name,
                    {.m = m, .n = rows, .k = cols, .transpose_b = true, .alpha = alpha, .accumulates = residual})};
  return {product(c, c.op.name, {.m = m, .n = cols, .k = rows, .alpha = alpha, .accumulates = residual})};
}

std::vector<Work> wgrad_work(const Context& c) {
  const auto alpha = static_cast<float>(scale_of(c.op));
  if (along_sum(c))
    return {product(c, c.op.name,
                    {.m = c.in(0).rows,
                     .n = c.in(1).rows,
                     .k = c.in(0).cols,
                     .transpose_b = true,
                     .alpha = alpha,
                     .accumulates = true})};
  return {product(c, c.op.name,
                  {.m = c.in(0).cols,
                   .n = c.in(1).cols,
                   .k = c.rows(c.in(0)),
                   .transpose_a = true,
                   .alpha = alpha,
                   .accumulates = true})};
}

}  // namespace

std::string LinearAttributes::text() const {
  const std::string flags = flags_text({{"bias", bias}, {"residual", residual}});
  if (scale == 1) return flags;
  return fmt::format("{}{}scale {}", flags, flags.empty() ? "" : " ", scale);
}

std::string ScaleAttributes::text() const { return scale == 1 ? "" : fmt::format("scale {}", scale); }

double scale_of(const Op& op) {
  const auto* attributes = std::get_if<ScaleAttributes>(&op.attributes);
  return attributes ? attributes->scale : 1;
}

constexpr OpRow kLinear = ForwardRow{.signature = signature,
                                     .weight_type = weight_type,
                                     .exact = kNoOutputs,
                                     .gradient = gradient,
                                     .model_flops = model_flops,
                                     .column_makers = column_makers,
                                     .stream_elements = stream_elements,
                                     .multiplies = Multiplies::x_and_weight,
                                     .work = work};

constexpr OpRow kLinearDgrad = BackwardRow{.signature = dgrad_signature,
                                           .weight_type = weight_type,
                                           .exact = kNoOutputs,
                                           .overwrites = dgrad_over_the_residual,
                                           .multiplies = Multiplies::dy_and_weight,
                                           .work = dgrad_work};

/// No op of the backward pass reads its result.
constexpr OpRow kLinearWgrad = BackwardRow{.signature = wgrad_signature,
                                           .exact = kNoOutputs,
                                           .may_wait_for = 1,
                                           .multiplies = Multiplies::dy_and_x,
                                           .work = wgrad_work};

}  // namespace llmc::ops
