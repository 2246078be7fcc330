// Runs the passes in their order: from a spec to the graph that the planner lays out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/passes/choice.h"
#include "spec/spec.h"

namespace llmc::passes {

/// Text of the graph after a pass; kept only if the pass changed it.
struct GraphDump {
  std::string file;  // "03-fuse_residual.txt"
  std::string text;
};

/// Builds, differentiates and lowers the step of a model with layers of these kinds, by `choice` instead of the spec's
/// keys. Because the planner calls it often, only the last graph is verified. If that is malformed, every pass is
/// verified, so that the error names the pass.
graph::Graph lower(const spec::Spec& spec, const std::vector<graph::LayerKind>& kinds, const Choice& choice);

/// Returns the text of the graph after each pass that changed it; verifies each.
std::vector<GraphDump> dumps(const spec::Spec& spec, const std::vector<graph::LayerKind>& kinds, const Choice& choice);

}  // namespace llmc::passes
