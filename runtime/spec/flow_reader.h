// One value on one line, as YAML's flow style writes it: 2048, "text", [norms, swiglu], {every: 2}.
#pragma once

#include <optional>
#include <vector>

#include "spec/node.h"

namespace llmc::spec {

/// Reads the value that stands in bytes [begin, end) of the source, a comment after it left out. Null where there is
/// none. Nothing, and a diagnostic, where it is not YAML or holds what a spec may not (anchors, aliases, tags).
std::optional<Node> read_flow(const Source& source, std::size_t begin, std::size_t end,
                              std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
