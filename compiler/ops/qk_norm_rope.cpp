// qk_norm_rope: RMSNorm over each head of q and k, one weight for q's heads and one for k's, then RoPE (Qwen 3: Yang et
// al. 2025); or over all columns of q, and all of k (OLMo 2: OLMo team 2024). One kernel reads and writes q and k once.
// The backward pass needs the projection, so the result is a separate tensor, with v's heads copied.
#include "compiler/ops/qk_norm_rope.h"

#include <fmt/format.h>

#include "compiler/ops/backward.h"
#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

std::int64_t normed(const Heads& heads) { return heads.query + heads.key; }

void expect_heads(const Operands& o, const Heads& heads, bool width, const Tensor& qkv, const Tensor& weight,
                  const Tensor& table, const Tensor& rstd) {
  o.expect(qkv.cols == heads.columns() && table.cols == heads.dim, "rows of q, k, v heads and a table of one head");
  if (width) {
    o.expect(weight.halves == 1 && weight.cols == normed(heads) * heads.dim, "a weight for each column of q and k");
    o.expect(rstd.rows == qkv.rows && rstd.cols == 2, "one rstd for q and one for k");
    return;
  }
  o.expect(weight.halves == 2 && weight.cols >= 2 * heads.dim, "a weight of q's heads and one of k's");
  o.expect(rstd.rows == qkv.rows && rstd.cols == normed(heads), "one rstd for each head of q and k");
}

/// qkv, weight, table -> qkv, rstd
void signature(const Operands& o) {
  o.count(3, 2);
  o.same_shape(o.in(0), o.out(0));
  const auto& attributes = o.op.as<QkNormRopeAttributes>();
  expect_heads(o, attributes.heads, attributes.width, o.in(0), o.in(1), o.in(2), o.out(1));
}

/// dy, qkv, weight, table, rstd -> dqkv, dweight
void backward_signature(const Operands& o) {
  o.count(5, 2);
  o.same_shape(o.in(0), o.in(1));
  o.same_shape(o.in(1), o.out(0));
  const auto& attributes = o.op.as<QkNormRopeBackwardAttributes>();
  expect_heads(o, attributes.heads, attributes.width, o.in(1), o.in(2), o.in(3), o.in(4));
}

/// The rotation by minus the angle, then RMSNorm's: with d rotated back, dx = rstd * (w d - x rstd^2 mean(w d x)), dw
/// += d x rstd over rows, and over heads unless these have weights of their own.
void gradient(Backward& b, const Op& op) {
  const TensorId qkv = op.inputs[0], weight = op.inputs[1], dy = b.of(op.outputs[0]);
  const auto& [heads, eps, rotates, width] = op.as<QkNormRopeAttributes>();
  b.emit(OpKind::qk_norm_rope_backward, op.name + "_backward", {dy, qkv, weight, op.inputs[2], op.outputs[1]},
         {b.part(qkv), b.of_parameter(weight)}, QkNormRopeBackwardAttributes{heads, rotates, width});
}

/// Adds the params of both kernels; `qkv` is read and written by row, `weight` has q's and k's.
Instance& shape(Instance& instance, const Context& c, const Heads& heads, const Tensor& qkv, const Tensor& weight,
                bool rotates, bool width) {
  instance.element(qkv.dtype)
      .integer("kRows", qkv.rows, kTokens)
      .integer("kSequence", c.graph.sequence, "batch.sequence_length")
      .integer("kHeads", heads.query, "model.num_attention_heads")
      .integer("kKvHeads", heads.key, "model.num_key_value_heads")
      .integer("kHeadDim", heads.dim, "model.head_dim")
      .integer("kPitch", qkv.pitch, kHeadCounts);
  if (!width) instance.integer("kWeightPitch", weight.cols / weight.halves, "model.head_dim");
  return instance.flag("kUnrotated", !rotates, "unrotated", "model.no_rope_layers").said(!rotates);
}

/// Returns a shape in which a block of threads has `blocks` of rows, whose heads its groups of lanes share.
LaunchShape by_head(const Heads& heads, std::int64_t blocks, DType dtype) {
  LaunchShape shape = short_shape(blocks, heads.dim / 2, dtype);
  shape.blocks = blocks;
  return shape;
}

std::vector<Work> work(const Context& c) {
  const Tensor &qkv = c.in(0), &weight = c.in(1);
  const auto& [heads, eps, rotates, width] = c.op.as<QkNormRopeAttributes>();
  const double turned = static_cast<double>(qkv.rows * normed(heads) * heads.dim);
  Instance instance(c, width ? "qk_width_norm_rope" : "qk_norm_rope");
  shape(instance, c, heads, qkv, weight, rotates, width)
      .real("kEps", eps, "model.rms_norm_eps")
      .costs(2 * c.bytes(qkv) + c.bytes(weight) + c.bytes(c.in(2)) + c.bytes(c.out(1)), 7 * turned);
  if (width)
    return {instance.shaped(launch_shape(qkv.rows, heads.query * heads.dim / 2, qkv.dtype, 2),
                            fmt::format("{} rows of q and k", qkv.rows), all_operands(c.op))};
  return {instance.shaped(by_head(heads, qkv.rows, qkv.dtype),
                          fmt::format("{} rows of {} heads", qkv.rows, normed(heads)), all_operands(c.op))};
}

std::vector<Work> backward_work(const Context& c) {
  const Tensor &qkv = c.in(1), &weight = c.in(2), &partial = c.out(1);
  const auto& [heads, rotates, width] = c.op.as<QkNormRopeBackwardAttributes>();
  const std::int64_t turned = qkv.rows * normed(heads) * heads.dim;
  Instance instance(c, width ? "qk_width_norm_rope_backward" : "qk_norm_rope_backward");
  const LaunchShape launch = width ? resident_shape(2 * partial.rows, heads.query * heads.dim / 2)
                                   : by_head(heads, 2 * partial.rows, qkv.dtype);
  const std::string rows = width ? "q and k" : fmt::format("{} heads", normed(heads));
  return {
      shape(instance, c, heads, qkv, weight, rotates, width)
          .integer("kBlocks", partial.rows, kTokens)
          .costs(3 * static_cast<double>(bytes_of(qkv.dtype, turned)) + c.bytes(weight) + c.bytes(c.in(3)) +
                     c.bytes(c.in(4)) + c.bytes(partial),
                 13 * static_cast<double>(turned))
          .shaped(launch, fmt::format("{} rows of {} in {} blocks", qkv.rows, rows, partial.rows),
                  {c.op.inputs[0], c.op.inputs[1], c.op.inputs[2], c.op.inputs[3], c.op.inputs[4], c.op.outputs[1]})};
}

}  // namespace

std::string QkNormRopeAttributes::text() const {
  return fmt::format("{} eps {}{}{}", heads.text(), eps, rotates ? "" : " unrotated", width ? " width" : "");
}

std::string QkNormRopeBackwardAttributes::text() const {
  return fmt::format("{}{}{}", heads.text(), rotates ? "" : " unrotated", width ? " width" : "");
}

constexpr OpRow kQkNormRope = ForwardRow{
    .signature = signature, .exact = output(1), .gradient = gradient, .model_flops = no_products, .work = work};

constexpr OpRow kQkNormRopeBackward = BackwardRow{.signature = backward_signature,
                                                  .exact = kNoOutputs,
                                                  .row_sum = 1,
                                                  .overwrites = over_first_input,
                                                  .work = backward_work};

}  // namespace llmc::ops
