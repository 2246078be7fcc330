// Declares every pass over the graph: one free function and one file each. pipeline.cpp has their order.
#pragma once

#include "compiler/graph/graph.h"
#include "compiler/passes/choice.h"
#include "spec/spec.h"

namespace llmc::passes {

using graph::Graph;

/// Appends the backward pass: for each block, from the last to the first, a region of the ops that its gradient rules
/// emit. The gradient of tensor `t` is named `d_t`; a tensor with two uses gets an explicit add. Gradients of
/// parameters accumulate: their ops add to the result of earlier micro-batches.
Graph differentiate(Graph graph, const spec::Spec& spec);

/// Sets activations to the compute dtype. The residual stream, norms' statistics, losses and gradients of parameters
/// stay fp32.
Graph lower_precision(Graph graph, const spec::Spec& spec);

/// Pads rows to 16 bytes of the compute dtype; gate and up, which share a row, are padded separately.
Graph pad_rows(Graph graph, const spec::Spec& spec);

/// Turns add(x, linear(...)) into a linear whose C operand is x, which saves a pass over memory, in both passes; and
/// add(x, rms_norm(...)) into a norm that adds x, which also writes the sum in the compute dtype if products read it.
Graph fuse_residual(Graph graph, const spec::Spec& spec);

/// Turns add(d, rms_norm_backward(...)) into a norm backward that adds the residual stream's gradient.
Graph fuse_gradient_sum(Graph graph, const spec::Spec& spec);

/// Runs head and loss over chunks of rows, forward and backward in one pass. dlogits overwrite the logits, so only one
/// chunk of logits is live at any time.
Graph chunk_loss(Graph graph, const Choice& choice);

/// Lets ops that need no second buffer overwrite their input: RoPE in both passes, the gradient of the residual stream,
/// and that of gate and up.
Graph reuse_in_place(Graph graph, const spec::Spec& spec);

/// Splits reductions of parameters into two deterministic stages: partial sums of fixed row blocks, then their sum.
Graph split_reductions(Graph graph, const spec::Spec& spec);

/// Recomputes in the backward pass what `choice` selects for each layer, and keeps the layer's other tensors. Layers of
/// one variant (the same kind and recomputed ops) share a region.
Graph recompute(Graph graph, const Choice& choice);

/// Removes RoPE's backward op where attention's own backward kernels can rotate their results: on sm_90a. Layers with
/// one mask share these kernels, so all of them must rotate.
Graph fuse_rope(Graph graph, const spec::Spec& spec);

/// With `precision.matmul: fp8` or `fp8_full`: rounds the operands of the layers' forward and data-gradient products to
/// e4m3, with one scale a row; with the latter also those of weight gradients, with one scale. With `fp8_tensor`: those
/// of all three products, with one scale a tensor, gradients to e5m2. With `mxfp8`: those of all three to e4m3, with
/// one scale for each 32 elements along the sum.
Graph quantise_products(Graph graph, const spec::Spec& spec);

/// Makes the kernels that compute operands of fp8 products quantise them, where they can: no kernel reads an operand
/// for that alone, and one that nothing else reads is not written in bf16.
Graph fuse_quantising(Graph graph, const spec::Spec& spec);

/// With `precision.matmul: fp8_full`: makes the kernels of the backward pass that compute an operand of a weight
/// gradient again write its codes transposed, where they can, with the scale that the operand's rows share: no kernel
/// reads them for that. Layers keep the scales of the rows.
Graph fuse_transposing(Graph graph, const spec::Spec& spec);

/// Appends gradient norm, clipping, the update and the per-parameter norms.
Graph append_optimizer(Graph graph, const spec::Spec& spec);

/// Appends a region for each matrix of a layer that Muon orthogonalises, in place of its gradient, which holds the
/// momentum's direction. `scalars`: Muon's.
void append_orthogonalising(Graph& graph, const spec::Spec& spec, graph::TensorId scalars);

/// Adds copies of weights in the dtype in which ops read them. A cast op in region `refresh` writes the copies at
/// start, and the optimizer's op updates them in each step.
Graph cast_weights(Graph graph, const spec::Spec& spec);

/// With `precision.master: split`: replaces the fp32 masters of matrices by what their bf16 copies lack. Adds the
/// conversions from and to fp32, in the memory of the gradients, for the host.
Graph split_masters(Graph graph, const spec::Spec& spec);

/// Appends the collectives of the ranks, block by block. Gradients are summed in the dtype `parallel.gradient_dtype` as
/// the backward pass produces them. If `parallel.shard` shards the optimizer's state, each rank updates its shard of
/// every block, and new weights are gathered for the forward pass.
Graph shard_over_ranks(Graph graph, const spec::Spec& spec);

/// If `choice` says so, rounds weights once for all passes between two updates, and keeps them. The backward pass does
/// not round again what the forward pass has rounded.
Graph keep_rounded_weights(Graph graph, const Choice& choice);

/// Appends regions outside of training steps: loss for evaluation, logits of chosen rows for sampling, the initial
/// weights.
Graph append_inference(Graph graph, const spec::Spec& spec);

/// Appends the second computation of the loss that `audit.compute` selects, with logits in fp32: from the features of
/// training, or from a whole pass in fp32 with the master weights.
Graph append_audit(Graph graph, const spec::Spec& spec);

}  // namespace llmc::passes
