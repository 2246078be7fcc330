// Applies `key.path=value` overrides from a command line to the tree of a file.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "spec/diagnostics.h"
#include "spec/node.h"

namespace llmc::spec {

/// Merges maps key by key; replaces everything else.
void merge(Node& base, Node over);

/// Stores a value at a path, creating maps and lists of one as needed.
void place_value(Node& root, const std::vector<KeyText>& words, Node value);

/// Replaces or adds the named values. `sources` keeps the texts that the tree's spans point into.
void apply_overrides(Node& root, const std::vector<std::string>& overrides, std::deque<Source>& sources,
                     std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
