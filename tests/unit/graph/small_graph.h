// The lowered small spec: two sequences per micro-batch, sixteen rows per chunk of the loss.
#pragma once

#include <string>
#include <vector>

#include "compiler/passes/pipeline.h"
#include "small_spec.h"

namespace llmc::passes {

inline graph::Graph lowered(const std::vector<std::string>& overrides = {}, bool keep_rounded_weights = false) {
  const spec::Resolved resolved = small_spec(overrides);
  const Choice choice = {2, 16, recompute_of(resolved.spec), keep_rounded_weights};
  const std::vector<graph::LayerKind> kinds = graph::kinds_of(resolved.spec);
  dumps(resolved.spec, kinds, choice);  // verifies the graph after each pass
  return lower(resolved.spec, kinds, choice);
}

}  // namespace llmc::passes
