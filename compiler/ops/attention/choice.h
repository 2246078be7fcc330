// Selects attention on CUDA: cuDNN, llmc's own kernels (templates/cuda), or cuDNN forward and either backward.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "math/attention.h"
#include "spec/spec.h"

namespace llmc::ops {

/// bf16 peak of the GPU that predicted times of backward passes are for: the H100 SXM, where their rates were measured.
/// Sources do not depend on target.device, so the plan scales the times to another one (plan/price.h).
inline constexpr double kBackwardRatesPeak = 989e12;

/// Choice for one shape and mask.
struct AttentionChoice {
  AttentionShape shape;
  AttentionBy forward = AttentionBy::cudnn;
  /// Variants in the trainer: one, or with target.attention: auto and deterministic: true both, the one with less
  /// predicted time first. `trainer tune` measures them.
  std::vector<BackwardWay> backward;
  std::vector<BackwardWay> left_out;  // that do not fit memory.budget
  bool rotates = false;               // the backward pass includes RoPE's

  bool carries(AttentionBy by) const {
    return std::any_of(backward.begin(), backward.end(), [by](const BackwardWay& way) { return way.by == by; });
  }
  /// Returns the largest workspace of any variant.
  std::size_t workspace_bytes() const {
    std::size_t most = 0;
    for (const BackwardWay& way : backward) most = std::max(most, way.workspace_bytes);
    return most;
  }
};

/// Choices of all layers: one for each shape and mask, in the order of the layers.
struct AttentionChoices {
  std::vector<AttentionChoice> list;

  /// Returns the choice for an op of attention, forward or backward.
  const AttentionChoice& of(const graph::Graph& graph, const graph::Op& op, const spec::Spec& spec) const;
  /// Drops the variant with the largest workspace if another one stays. Returns whether it did.
  bool leave_out_largest();
};

/// Returns the attention of one micro-batch by `op`, forward or backward, for the CUDA runtime.
AttentionShape attention_shape(const graph::Graph& graph, const graph::Op& op, const spec::Spec& spec);

/// Whether the trainer contains llmc's own kernels by warpgroups for this backward op.
bool backward_in_warpgroups(const graph::Graph& graph, const graph::Op& op, const spec::Spec& spec);

/// Suffix of an attention's names in emitted sources: "_window_512"; causal: nothing.
std::string attention_suffix(const AttentionShape& shape);

/// Throws Failure(spec) if no attention has the properties that the spec requires.
AttentionChoices choose_attention(const graph::Graph& graph, const spec::Spec& spec);

}  // namespace llmc::ops
