// Parses strict YAML: maps, lists and scalars, with the span of every key and value. All other features of YAML are
// errors.
#pragma once

#include <optional>
#include <vector>

#include "spec/node.h"

namespace llmc::spec {

/// Reads one document starting at `offset` of the source. Appends what is wrong to `diagnostics`; nothing is returned
/// when the text is not YAML at all, is not UTF-8 or passes a limit (1 MiB, 20,000 nodes, depth 32).
std::optional<Node> read_yaml(const Source& source, std::vector<Diagnostic>& diagnostics, std::size_t offset = 0);

}  // namespace llmc::spec
