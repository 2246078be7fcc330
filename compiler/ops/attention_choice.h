// Who computes attention on CUDA: cuDNN, kernels of llmc's own (templates/cuda), or cuDNN forward and either backward.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "math/attention.h"
#include "spec/spec.h"

namespace llmc::ops {

/// Of one shape and mask.
struct AttentionChoice {
  AttentionShape shape;
  AttentionBy forward = AttentionBy::cudnn;
  /// What the trainer carries: one, or with target.attention: auto and deterministic: true both, the one first that is
  /// predicted to take less time. `trainer tune` measures them.
  std::vector<BackwardWay> backward;
  std::vector<BackwardWay> left_out;  // for which memory.budget has no room

  bool carries(AttentionBy by) const {
    return std::any_of(backward.begin(), backward.end(), [by](const BackwardWay& way) { return way.by == by; });
  }
  /// That any of them needs.
  std::size_t workspace_bytes() const {
    std::size_t most = 0;
    for (const BackwardWay& way : backward) most = std::max(most, way.workspace_bytes);
    return most;
  }
};

/// Of all layers: one for each shape and mask, in the order in which layers have them.
struct AttentionChoices {
  std::vector<AttentionChoice> list;

  /// That of an op of attention, forward or backward.
  const AttentionChoice& of(const graph::Graph& graph, const graph::Op& op, const spec::Spec& spec) const;
  /// Gives up the way that needs most, where another stays; whether it did.
  bool leave_out_largest();
};

/// The attention of one micro-batch by `op`, forward or backward, as the CUDA runtime takes it.
AttentionShape attention_shape(const graph::Graph& graph, const graph::Op& op, const spec::Spec& spec);

/// Suffix of an attention's names in emitted sources: "_window_512"; causal: nothing.
std::string attention_suffix(const AttentionShape& shape);

/// Throws Failure(spec) for an attention that what the spec asks for does not have.
AttentionChoices choose_attention(const graph::Graph& graph, const spec::Spec& spec);

}  // namespace llmc::ops
