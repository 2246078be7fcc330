// Builds the forward pass of a Llama or Qwen 3 model: the graph before any pass.
#pragma once

#include "compiler/graph/graph.h"
#include "spec/spec.h"

namespace llmc::graph {

/// Forward ops of one micro-batch of `micro_batch` sequences, everything in fp32 and unpadded, one region
/// for each block: embed, layer (one region for all layers, of the first one's kind), head. Formulas: Touvron et al.
/// 2023, as in transformers' LlamaForCausalLM and MistralForCausalLM and, with model.qk_norm, Qwen3ForCausalLM.
Graph build_llama(const spec::Spec& spec, const std::vector<LayerKind>& kinds, std::int64_t micro_batch);

/// Makes a region of layers one of `kind`.
void give_kind(Region& region, const LayerKind& kind);

}  // namespace llmc::graph
