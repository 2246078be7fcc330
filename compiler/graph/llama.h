// Builds the forward pass of a model: the graph before any pass.
#pragma once

#include "compiler/graph/graph.h"
#include "spec/spec.h"

namespace llmc::graph {

/// Returns the forward ops of `micro_batch` sequences, in fp32 and unpadded. Each block is a region: embed, layer (one
/// region for all layers, of the first one's kind), head. Formulas: Touvron et al. 2023, as in the
/// classes of transformers that runtime/spec/huggingface/families.h lists.
Graph build_llama(const spec::Spec& spec, const std::vector<LayerKind>& kinds, std::int64_t micro_batch);

/// Sets the kind of a region of layers. `graph` has the host's tensors.
void give_kind(const Graph& graph, Region& region, const LayerKind& kind);

}  // namespace llmc::graph
