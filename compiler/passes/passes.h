// Every pass over the graph: a free function each, one file each. Their order stands in pipeline.cpp.
#pragma once

#include "compiler/graph/graph.h"
#include "compiler/passes/choice.h"
#include "spec/spec.h"

namespace llmc::passes {

using graph::Graph;

/// Appends the backward pass: for each block, from the last to the first, a region of what its ops' gradient rules
/// emit. The gradient of tensor `t` is named `d_t`; a tensor with two uses gets the sum of both by an explicit add.
/// Gradients of parameters accumulate: their ops add to what an earlier micro-batch left.
Graph differentiate(Graph graph, const spec::Spec& spec);

/// Gives activations the compute dtype. The residual stream, norms' statistics, losses and gradients of parameters stay
/// fp32.
Graph lower_precision(Graph graph, const spec::Spec& spec);

/// Pads rows to 16 bytes of the compute dtype; gate and up, which share a row, are padded each on its own.
Graph pad_rows(Graph graph, const spec::Spec& spec);

/// Turns add(x, linear(...)) into a linear whose C operand is x: the residual costs no pass over memory of its own.
Graph fuse_residual(Graph graph, const spec::Spec& spec);

/// Turns add(d, rms_norm_backward(...)) into a norm backward that adds the residual stream's gradient.
Graph fuse_gradient_sum(Graph graph, const spec::Spec& spec);

/// Runs head and loss over chunks of rows, forward and backward in one pass, dlogits over the logits, so that only one
/// chunk of logits is ever alive.
Graph chunk_loss(Graph graph, const Choice& choice);

/// Lets ops that need no second buffer write over their input: RoPE both ways, the stream's gradient, dgate_up.
Graph reuse_in_place(Graph graph, const spec::Spec& spec);

/// Splits parameter reductions in two deterministic stages: partial sums of fixed row blocks, then their sum.
Graph split_reductions(Graph graph, const spec::Spec& spec);

/// Keeps of each layer what the choice does not compute again in the backward pass; layers of
/// one variant, a kind and what is computed again, share a region.
Graph recompute(Graph graph, const Choice& choice);

/// Appends gradient norm, clipping, the update and the per-parameter norms.
Graph append_optimizer(Graph graph, const spec::Spec& spec);

/// Gives each op its weights in the type that it computes in: copies, which a cast op writes, in region refresh, and
/// the update with each step.
Graph cast_weights(Graph graph, const spec::Spec& spec);

/// Appends what the ranks of a run do together, block by block: gradients are summed over them as the backward pass
/// makes them, in parallel.gradient_dtype; where parallel.shard shares out the optimizer's state each rank updates its
/// share of every block, and new weights are gathered for the forward pass.
Graph share_out(Graph graph, const spec::Spec& spec);

/// Appends what runs beside the steps: loss for evaluation, logits of chosen rows for sampling, the initial weights.
Graph append_inference(Graph graph, const spec::Spec& spec);

/// Appends what audit.compute asks for: the losses of a micro-batch by logits in fp32, of the features that training
/// has or of a whole pass in fp32 by the master weights.
Graph append_audit(Graph graph, const spec::Spec& spec);

}  // namespace llmc::passes
