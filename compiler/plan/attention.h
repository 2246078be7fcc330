// Who computes attention on CUDA: cuDNN, kernels of llmc's own (templates/cuda), or cuDNN forward and llmc backward.
#pragma once

#include <vector>

#include "compiler/graph/graph.h"
#include "spec/spec.h"
#include "math/attention.h"

namespace llmc::plan {

enum class AttentionBy { cudnn, portable };

/// A backward pass that this run could have.
struct BackwardCandidate {
  AttentionBy by;
  double ms = 0;  // of a layer and micro-batch, predicted; 0 where no rates are known
  std::size_t workspace_bytes = 0;
};

struct AttentionChoice {
  AttentionBy forward, backward;
  std::size_t workspace = 0;                  // of the backward pass, bytes
  std::vector<BackwardCandidate> candidates;  // of target.attention: auto with deterministic: true; else none

  std::size_t workspace_bytes() const { return workspace; }
};

/// The attention of one micro-batch, as the CUDA runtime takes it.
AttentionShape attention_shape(const graph::Graph& graph, const spec::Spec& spec);

/// Throws Failure(spec) for an attention that what the spec asks for does not have.
AttentionChoice choose_attention(const graph::Graph& graph, const spec::Spec& spec);

}  // namespace llmc::plan
