// cross_entropy: loss[t] = log(sum(exp(logits[t]))) - logits[t][target[t]]; the gradient overwrites the logits. Also
// computes each row's log-sum-exp, the entropy of its softmax, and whether its target has the largest logit.
#include "compiler/ops/cross_entropy.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/backward.h"
#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// logits, targets, scalars[, loss_scale] -> losses, lse, entropies, correct
void signature(const Operands& o) {
  o.count(o.op.inputs.size() == 4 ? 4 : 3, 4);
  o.expect(o.in(1).cols == o.graph.tokens(), "one target a token");
  for (std::size_t i = 0; i < 4; ++i) o.expect(o.out(i).cols == o.graph.tokens(), "one of each result a token");
}

/// logits, targets -> dlogits
void backward_signature(const Operands& o) {
  o.count(2, 1);
  o.same_shape(o.in(0), o.out(0));
}

/// dlogits = (softmax(logits) (1 + 2 z lse) - onehot(target)) / targets of the global batch: the second term of the
/// factor is the z-loss's. With a soft cap, of the capped logits v, times its slope 1 - (v / cap)^2. The losses have no
/// gradient input.
void gradient(Backward& b, const Op& op) {
  b.emit(OpKind::cross_entropy_backward, op.name + "_backward", {op.inputs[0], op.inputs[1]}, {b.part(op.inputs[0])},
         op.as<CrossEntropyAttributes>());
}

/// Whether every architecture of the binary has thread-block clusters, which exist from sm_90 on.
bool has_clusters(const std::vector<std::string>& archs) {
  return std::all_of(archs.begin(), archs.end(), [](const std::string& arch) { return std::stoi(arch) >= 90; });
}

std::vector<Work> work(const Context& c) {
  const auto& of = c.op.as<CrossEntropyAttributes>();
  const Tensor& logits = c.in(0);
  const std::int64_t rows = c.rows(logits);
  const bool clusters = c.cuda() && has_clusters(c.spec.target.arch), gradient = of.gradient;
  const LaunchShape shape =
      clusters ? cluster_shape(rows, logits.cols, logits.dtype) : launch_shape(rows, logits.cols, logits.dtype);
  // A row that does not stay in registers, or has a soft cap, is read for its sum and for its gradient.
  const bool once = !c.cuda() || stays_in_registers(shape, logits.cols, logits.dtype);
  const double reads = (once && of.softcap == 0) || !gradient ? 1 : 2;
  Instance instance(c, of.softcap > 0 ? "cross_entropy_capped" : "cross_entropy");
  if (of.softcap > 0) instance.real("kSoftcap", of.softcap, "model.final_logit_softcapping");
  std::vector<Argument> arguments = {c.op.inputs[0],  c.op.inputs[1],  c.op.outputs[0], c.op.outputs[1],
                                     c.op.outputs[2], c.op.outputs[3], c.op.inputs[2]};
  if (c.op.inputs.size() == 4) arguments.emplace_back(c.op.inputs[3]);
  instance.loss_scaled(c.op.inputs.size() == 4);
  return {instance.element(logits.dtype)
              .integer("kRows", rows, "memory.loss_chunk")
              .integer("kCols", logits.cols, kVocab)
              .integer("kPitch", logits.pitch, kVocab)
              .flag("kGradient", gradient, "gradient", "model")
              .real("kZLoss", gradient ? of.z : 0, "loss.z")
              .said(gradient && of.z > 0)
              .integer("kCluster", shape.cluster, "model.vocab_size, target.arch")
              .costs((reads + gradient) * static_cast<double>(bytes_of(logits.dtype, rows * logits.cols)) + 20.0 * rows,
                     (of.softcap > 0 ? 40.0 : 7.0) * rows * logits.cols)
              .shaped(shape, fmt::format("{} rows of {}", rows, logits.cols), std::move(arguments))};
}

}  // namespace

std::string CrossEntropyAttributes::text() const {
  std::string text = flags_text({{"gradient", gradient}});
  if (z > 0) text += fmt::format("{}z={}", text.empty() ? "" : " ", z);
  if (softcap > 0) text += fmt::format("{}softcap={}", text.empty() ? "" : " ", softcap);
  return text;
}

std::string SoftCapAttributes::text() const { return fmt::format("{}", cap); }

constexpr OpRow kCrossEntropy = ForwardRow{.signature = signature,
                                           .exact = output(0) | output(1) | output(2) | output(3),
                                           .gradient = gradient,
                                           .model_flops = no_products,
                                           .changes = input(0),
                                           .work = work};

constexpr OpRow kCrossEntropyBackward =
    BackwardRow{.signature = backward_signature, .exact = kNoOutputs, .work = fused_away};

}  // namespace llmc::ops
