#include "compiler/graph/kinds.h"

#include <algorithm>

#include "spec/spec.h"

namespace llmc::graph {

std::vector<LayerKind> kinds_of(const spec::Spec& spec) {
  std::vector<LayerKind> kinds(static_cast<std::size_t>(spec.model.num_hidden_layers));
  if (spec.model.sliding_window >= spec.batch.sequence_length) return kinds;
  for (std::size_t layer = 0; layer < kinds.size(); ++layer)
    if (spec.model.slides(static_cast<std::int64_t>(layer)))
      kinds[layer].window = static_cast<int>(spec.model.sliding_window);
  return kinds;
}

std::vector<LayerKind> distinct(const std::vector<LayerKind>& kinds) {
  std::vector<LayerKind> result;
  for (const LayerKind& kind : kinds)
    if (std::ranges::find(result, kind) == result.end()) result.push_back(kind);
  return result;
}

}  // namespace llmc::graph
