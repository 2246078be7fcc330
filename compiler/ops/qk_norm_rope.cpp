// qk_norm_rope: RMSNorm over each head of q and k, one weight for q's heads and one for k's, then RoPE (Qwen 3: Yang et
// al. 2025); or over all columns of q, and all of k (OLMo 2: OLMo team 2024); or RoPE, then the norm of each head
// (nanochat: Karpathy 2025). One kernel reads and writes q and k once. The backward pass needs the projection, so the
// result is a separate tensor, with v's heads copied.
#include "compiler/ops/qk_norm_rope.h"

#include <fmt/format.h>

#include "compiler/ops/backward.h"
#include "compiler/ops/instance.h"
#include "compiler/ops/rms_norm.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

std::int64_t normed(const Heads& heads) { return heads.query + heads.key; }

/// `a`: the attributes of either op.
template <class A>
void expect_heads(const Operands& o, const A& a, const Tensor& qkv, const Tensor& weight, const Tensor& table,
                  const Tensor& rstd) {
  const Heads& heads = a.heads;
  const std::int64_t columns = normed(heads) * heads.dim;
  o.expect(qkv.cols == heads.columns() && (a.alone ? table.cols >= heads.dim : table.cols == heads.dim),
           "rows of q, k, v heads and a table of one head");
  if (a.weight == spec::NormWeight::none)
    o.expect(weight.cols >= (a.width ? columns : heads.dim), "a one for each column that has a weight elsewhere");
  else if (a.width)
    o.expect(weight.halves == 1 && weight.cols == columns, "a weight for each column of q and k");
  else
    o.expect(weight.halves == 2 && weight.cols >= 2 * heads.dim, "a weight of q's heads and one of k's");
  if (a.width)
    o.expect(rstd.rows == qkv.rows && rstd.cols == 2, "one rstd for q and one for k");
  else
    o.expect(rstd.rows == qkv.rows && rstd.cols == normed(heads), "one rstd for each head of q and k");
}

/// qkv, weight, table[, document_begin] -> qkv, rstd
void signature(const Operands& o) {
  o.count(o.op.as<QkNormRopeAttributes>().resets ? 4 : 3, 2);
  o.same_shape(o.in(0), o.out(0));
  expect_heads(o, o.op.as<QkNormRopeAttributes>(), o.in(0), o.in(1), o.in(2), o.out(1));
}

bool weighted(const Op& op) { return op.as<QkNormRopeBackwardAttributes>().weight != spec::NormWeight::none; }

int sum_of_weight(const Op& op) { return weighted(op) ? 1 : kNoSum; }

/// dy, qkv, weight, table, rstd[, document_begin] -> dqkv[, dweight]
void backward_signature(const Operands& o) {
  o.count(o.op.as<QkNormRopeBackwardAttributes>().resets ? 6 : 5, 1 + weighted(o.op));
  o.same_shape(o.in(0), o.in(1));
  o.same_shape(o.in(1), o.out(0));
  expect_heads(o, o.op.as<QkNormRopeBackwardAttributes>(), o.in(1), o.in(2), o.in(3), o.in(4));
}

/// The rotation by minus the angle, then RMSNorm's: with d rotated back, dx = rstd * (w d - x rstd^2 mean(w d x)), dw
/// += d x rstd over rows, and over heads unless these have weights of their own. After RoPE the rotated x takes x's
/// place, and the rotation by minus the angle is the last.
void gradient(Backward& b, const Op& op) {
  const TensorId qkv = op.inputs[0], weight = op.inputs[1], dy = b.of(op.outputs[0]);
  const auto& [heads, eps, rotates, alone, width, resets, after_rope, kind] = op.as<QkNormRopeAttributes>();
  std::vector<TensorId> inputs = {dy, qkv, weight, op.inputs[2], op.outputs[1]}, outputs = {b.part(qkv)};
  if (resets) inputs.push_back(op.inputs[3]);
  if (kind != spec::NormWeight::none) outputs.push_back(b.of_parameter(weight));
  b.emit(OpKind::qk_norm_rope_backward, op.name + "_backward", std::move(inputs), std::move(outputs),
         QkNormRopeBackwardAttributes{heads, rotates, alone, width, resets, after_rope, kind});
}

/// Adds the params of both kernels; `qkv` is read and written by row, `weight` has q's and k's. `a`: the attributes of
/// either op.
template <class A>
Instance& shape(Instance& instance, const Context& c, const A& a, const Tensor& qkv, const Tensor& weight) {
  const Heads& heads = a.heads;
  instance.element(qkv.dtype)
      .integer("kRows", qkv.rows, kTokens)
      .integer("kSequence", a.alone ? 1 : c.graph.sequence, "batch.sequence_length")
      .integer("kHeads", heads.query, "model.num_attention_heads")
      .integer("kKvHeads", heads.key, "model.num_key_value_heads")
      .integer("kHeadDim", heads.dim, "model.head_dim")
      .integer("kPitch", qkv.pitch, kHeadCounts);
  const std::int64_t weight_pitch = a.weight == spec::NormWeight::none ? 0 : weight.cols / weight.halves;
  if (!a.width) instance.integer("kWeightPitch", weight_pitch, "model.head_dim");
  const char* unrotated = a.alone ? "model.partial_rotary_factor, model.rope_interleaved" : "model.no_rope_layers";
  return instance.flag("kUnrotated", !a.rotates, "unrotated", unrotated).said(!a.rotates).resets(a.resets);
}

/// Returns a shape in which a block of threads has `blocks` of rows, whose heads its groups of lanes share.
LaunchShape by_head(const Heads& heads, std::int64_t blocks, DType dtype) {
  LaunchShape shape = short_shape(blocks, heads.dim / 2, dtype);
  shape.blocks = blocks;
  return shape;
}

std::vector<Work> work(const Context& c) {
  const Tensor &qkv = c.in(0), &weight = c.in(1);
  const auto& attributes = c.op.as<QkNormRopeAttributes>();
  const auto& [heads, eps, rotates, alone, width, resets, after_rope, kind] = attributes;
  const double turned = static_cast<double>(qkv.rows * normed(heads) * heads.dim);
  const auto &in = c.op.inputs, &result = c.op.outputs;
  std::vector<Argument> arguments = {in[0], in[1], in[2], result[0], result[1]};
  if (resets) arguments.push_back(in[3]);
  Instance instance(c, width ? "qk_width_norm_rope" : after_rope ? "qk_rope_norm" : "qk_norm_rope");
  shape(instance, c, attributes, qkv, weight)
      .norm_weight(kind)
      .real("kEps", eps, "model.rms_norm_eps")
      .costs(2 * c.bytes(qkv) + c.bytes(weight) + c.bytes(c.in(2)) + c.bytes(c.out(1)), 7 * turned);
  if (width)
    return {instance.shaped(launch_shape(qkv.rows, heads.query * heads.dim / 2, qkv.dtype, 2),
                            fmt::format("{} rows of q and k", qkv.rows), std::move(arguments))};
  return {instance.shaped(by_head(heads, qkv.rows, qkv.dtype),
                          fmt::format("{} rows of {} heads", qkv.rows, normed(heads)), std::move(arguments))};
}

std::vector<Work> backward_work(const Context& c) {
  const Tensor &qkv = c.in(1), &weight = c.in(2);
  const auto& attributes = c.op.as<QkNormRopeBackwardAttributes>();
  const auto& [heads, rotates, alone, width, resets, after_rope, kind] = attributes;
  const std::int64_t blocks = weighted(c.op) ? c.out(1).rows : row_blocks(qkv.rows);
  const std::int64_t turned = qkv.rows * normed(heads) * heads.dim;
  const auto& in = c.op.inputs;
  std::vector<Argument> arguments = {in[0], in[1], in[2],
                                     in[3], in[4], weighted(c.op) ? Argument(c.op.outputs[1]) : "nullptr"};
  if (resets) arguments.push_back(in[5]);
  Instance instance(c, width        ? "qk_width_norm_rope_backward"
                       : after_rope ? "qk_rope_norm_backward"
                                    : "qk_norm_rope_backward");
  const LaunchShape launch =
      width ? resident_shape(2 * blocks, heads.query * heads.dim / 2) : by_head(heads, 2 * blocks, qkv.dtype);
  const std::string rows = width ? "q and k" : fmt::format("{} heads", normed(heads));
  return {shape(instance, c, attributes, qkv, weight)
              .norm_weight(kind, true)
              .integer("kBlocks", blocks, kTokens)
              .costs(3 * static_cast<double>(bytes_of(qkv.dtype, turned)) + c.bytes(weight) + c.bytes(c.in(3)) +
                         c.bytes(c.in(4)) + (weighted(c.op) ? c.bytes(c.out(1)) : 0),
                     13 * static_cast<double>(turned))
              .shaped(launch, fmt::format("{} rows of {} in {} blocks", qkv.rows, rows, blocks), std::move(arguments))};
}

}  // namespace

std::string QkNormRopeAttributes::text() const {
  return fmt::format("{} eps {}{}{}{}{}{}", heads.text(), eps,
                     rotates ? ""
                     : alone ? " alone"
                             : " unrotated",
                     width ? " width" : "", resets ? " resets" : "", after_rope ? " after_rope" : "", text_of(weight));
}

std::string QkNormRopeBackwardAttributes::text() const {
  return fmt::format("{}{}{}{}{}{}", heads.text(),
                     rotates ? ""
                     : alone ? " alone"
                             : " unrotated",
                     width ? " width" : "", resets ? " resets" : "", after_rope ? " after_rope" : "", text_of(weight));
}

constexpr OpRow kQkNormRope = ForwardRow{
    .signature = signature, .exact = output(1), .gradient = gradient, .model_flops = no_products, .work = work};

constexpr OpRow kQkNormRopeBackward = BackwardRow{.signature = backward_signature,
                                                  .exact = kNoOutputs,
                                                  .row_sum = sum_of_weight,
                                                  .overwrites = over_first_input,
                                                  .work = backward_work};

}  // namespace llmc::ops
