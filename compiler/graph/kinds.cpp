#include "compiler/graph/kinds.h"

#include <algorithm>

#include "spec/spec.h"

namespace llmc::graph {

std::vector<LayerKind> kinds_of(const spec::Spec& spec) {
  std::vector<LayerKind> kinds(static_cast<std::size_t>(spec.model.num_hidden_layers));
  const auto layers = static_cast<std::int64_t>(kinds.size());
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    LayerKind& kind = kinds[static_cast<std::size_t>(layer)];
    if (spec.model.sliding_window < spec.batch.sequence_length && spec.model.slides(layer))
      kind.window = static_cast<int>(spec.model.sliding_window);
    kind.rope = spec.model.has_rope(layer);
    kind.local_rope = spec.model.has_local_rope(layer);
    kind.wide_products = layer < spec.fp8.first_layers || layer >= layers - spec.fp8.last_layers;
  }
  return kinds;
}

std::vector<LayerKind> distinct(const std::vector<LayerKind>& kinds) {
  std::vector<LayerKind> result;
  for (const LayerKind& kind : kinds)
    if (std::ranges::find(result, kind) == result.end()) result.push_back(kind);
  return result;
}

}  // namespace llmc::graph
