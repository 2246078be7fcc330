// Reads the entries of a list or map row from a tree: each value is converted by its member's row.
#pragma once

#include <vector>

#include "spec/binder.h"

namespace llmc::spec {

/// Reads a list. A list replaces the one of the base; `[1]` on a command line changes members of one entry.
void read_list(const Key& row, const Node& node, const Span& key_span, BoundSpec& bound,
               std::vector<Diagnostic>& diagnostics);

/// Reads the entry `key` of a map. An existing entry keeps the members that are not given; an entry whose shorthand is
/// empty is removed.
void read_named(const Key& row, const Node& node, const KeyText& key, BoundSpec& bound,
                std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
