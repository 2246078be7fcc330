// Reads one value on one line in YAML's flow style: 2048, "text", [norms, swiglu], {every: 2}.
#pragma once

#include <optional>
#include <vector>

#include "spec/node.h"

namespace llmc::spec {

/// Reads the value in bytes [begin, end) of the source, ignoring a comment after it. A null node if there is none.
/// Nothing, and a diagnostic, if it is not YAML or uses anchors, aliases or tags.
std::optional<Node> read_flow(const Source& source, std::size_t begin, std::size_t end,
                              std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
