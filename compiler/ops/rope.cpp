// rope: rotates pairs of elements of the heads of q and k by their position's angle (Su et al. 2021).
#include "compiler/ops/rope.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/backward.h"
#include "compiler/ops/instance.h"
#include "compiler/ops/quantising/quantise.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// qkv, table[, document_begin] -> qkv; backward: dqkv, table[, document_begin] -> dqkv
void signature(const Operands& o) {
  o.count(o.op.as<RopeAttributes>().resets ? 3 : 2, 1);
  o.same_shape(o.in(0), o.out(0));
  const RopeAttributes& rope = o.op.as<RopeAttributes>();
  o.expect(o.in(0).cols == rope.heads.columns() && o.in(1).cols == rope.rotary && rope.rotary <= rope.heads.dim,
           "rows of q, k, v heads and a table of one head");
}

/// A rotation: its gradient is the rotation by minus the angle.
void gradient(Backward& b, const Op& op) {
  const TensorId dy = b.of(op.outputs[0]);
  std::vector<TensorId> inputs = op.inputs;
  inputs[0] = dy;
  b.emit(OpKind::rope_backward, op.name + "_backward", std::move(inputs), {b.part(op.inputs[0])},
         op.as<RopeAttributes>());
}

/// Rows of products of codes have no padding.
bool backward_can_quantise(const Operands& o, const Quantised& q) {
  const RopeAttributes& rope = o.op.as<RopeAttributes>();
  return q.output == 0 && q.folded && rope.rotates && rope.whole() && o.in(0).pitch == o.in(0).cols;
}

/// Vectors of either half of the heads that a lane keeps. A warp has the row of up to 48 heads of 64, and meets without
/// a barrier.
constexpr std::int64_t kHalves = 6;

/// `arguments`, then the first token of each token's document if positions begin anew there.
std::vector<Argument> with_documents(const Op& op, std::vector<Argument> arguments) {
  if (op.as<RopeAttributes>().resets) arguments.push_back(op.inputs[2]);
  return arguments;
}

/// Moves whole rows: codes of v too.
std::vector<Work> quantised_work(const Context& c, const QuantisedOperands& q) {
  const Tensor &qkv = c.in(0), &codes = c.graph.at(q.codes);
  const auto& [all, rotary, interleaved, beta, original, rotates, resets] = c.op.as<RopeAttributes>();
  const auto [query, key, dim] = all;
  const std::int64_t heads = query + key, turned = qkv.rows * heads * dim;
  const double numbers = q.alone ? 0 : static_cast<double>(bytes_of(qkv.dtype, turned));
  return {Instance(c, "rope_backward_quantised")
              .element(qkv.dtype)
              .element(codes.dtype, "Result", "precision.matmul")
              .integer("kRows", qkv.rows, kTokens)
              .integer("kSequence", c.graph.sequence, "batch.sequence_length")
              .integer("kHeads", heads, kHeadCounts)
              .integer("kKvHeads", key, kHeadCounts)
              .integer("kHeadDim", dim, "model.head_dim")
              .integer("kPitch", qkv.pitch, kHeadCounts)
              .flag("kNumbers", !q.alone, "numbers", "precision.matmul")
              .resets(resets)
              .costs(c.bytes(qkv) + numbers + c.bytes(codes) + c.bytes(c.in(1)) + c.bytes(c.graph.at(q.scales)) +
                         c.bytes(c.graph.at(q.factors)),
                     6.0 * static_cast<double>(turned))
              .shaped(launch_shape(qkv.rows, heads * dim / 2, qkv.dtype, kHalves),
                      fmt::format("{} rows of {}", qkv.rows, qkv.cols),
                      with_documents(c.op, {c.op.inputs[0], c.op.inputs[1], q.factors, q.codes, q.scales}))};
}

std::vector<Work> work(const Context& c) {
  if (const auto q = quantised(c.op, 0)) return quantised_work(c, *q);
  const Tensor& qkv = c.in(0);
  const auto& [all, rotary, interleaved, beta, original, rotates, resets] = c.op.as<RopeAttributes>();
  if (!rotates) return {};  // its result is its input's buffer
  const bool whole = c.op.as<RopeAttributes>().whole();
  const auto [query, key, dim] = all;
  const std::int64_t heads = query + key;
  const std::int64_t scaled = beta != 0 ? query * (dim - rotary) : 0;  // elements of q that are not rotated
  const std::int64_t turned = qkv.rows * (heads * rotary + scaled);
  Instance instance(c, whole ? "rope" : "rope_part");
  if (!whole) {
    const char* scaling = "model.rope_scaling";
    instance.integer("kRotary", rotary, "model.partial_rotary_factor, model.head_dim")
        .integer("kKvHeads", key, kHeadCounts)
        .flag("kInterleaved", interleaved, "interleaved", "model.rope_interleaved");
    instance.flag("kScaled", beta != 0, "scaled", scaling).said(beta != 0);
    instance.real("kBeta", beta, scaling).said(beta != 0);
    instance.integer("kOriginal", std::max<std::int64_t>(original, 1), scaling).said(beta != 0);
  }
  return {instance.element(qkv.dtype)
              .integer("kRows", qkv.rows, kTokens)
              .integer("kSequence", c.graph.sequence, "batch.sequence_length")
              .integer("kHeads", heads, kHeadCounts)
              .integer("kHeadDim", dim, "model.head_dim")
              .integer("kPitch", qkv.pitch, kHeadCounts)
              .flag("kInverse", c.op.kind == OpKind::rope_backward, "inverse", "model")
              .resets(resets)
              .costs(2 * static_cast<double>(bytes_of(qkv.dtype, turned)) + c.bytes(c.in(1)),
                     3 * static_cast<double>(turned))
              .rows(qkv.rows, heads * rotary, qkv.dtype, with_documents(c.op, {c.op.inputs[0], c.op.inputs[1]}))};
}

}  // namespace

std::string RopeAttributes::text() const {
  return heads.text() + (rotary == heads.dim ? "" : fmt::format(" of {}", rotary)) +
         (interleaved ? " interleaved" : "") + (beta != 0 ? fmt::format(" q by {} past {}", beta, original) : "") +
         (rotates ? "" : " unrotated") + (resets ? " resets" : "");
}

constexpr OpRow kRope = ForwardRow{.signature = signature,
                                   .exact = kNoOutputs,
                                   .gradient = gradient,
                                   .model_flops = no_products,
                                   .overwrites = over_first_input,
                                   .work = work};

constexpr OpRow kRopeBackward = BackwardRow{.signature = signature,
                                            .exact = kNoOutputs,
                                            .overwrites = over_first_input,
                                            .can_quantise = backward_can_quantise,
                                            .work = work};

}  // namespace llmc::ops
