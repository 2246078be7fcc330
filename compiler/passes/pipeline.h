// The passes in their order: from a spec to the graph that the planner lays out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/passes/choice.h"
#include "spec/spec.h"

namespace llmc::passes {

/// The graph after one pass; kept only where the pass changed something.
struct Dump {
  std::string file;  // "03-fuse_residual.txt"
  std::string text;
};

/// Builds, differentiates and lowers the step of a model with layers of these kinds as `choice` has it, whatever the
/// spec says of these keys. The planner asks for many: the last graph is verified, and where it is not well formed each
/// one, so that the error names the pass.
graph::Graph lower(const spec::Spec& spec, const std::vector<graph::LayerKind>& kinds, const Choice& choice);

/// The text of the graph after each pass that changed it; each is verified.
std::vector<Dump> dumps(const spec::Spec& spec, const std::vector<graph::LayerKind>& kinds, const Choice& choice);

}  // namespace llmc::passes
