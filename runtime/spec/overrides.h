// Applies `key.path=value` overrides from a command line to the tree of a file.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "spec/diagnostics.h"
#include "spec/node.h"
#include "spec/schema/schema.h"

namespace llmc::spec {

/// Merges maps key by key; replaces everything else.
void merge(Node& base, Node over);

/// Stores a value at a path, creating maps and lists of one as needed.
void place_value(Node& root, const std::vector<KeyText>& words, Node value, const Schema& schema);

/// Node at one component of a path: a key of a map, or "[1]" of a list; null if there is none.
Node* find_member(Node& node, const std::string& word);

/// Replaces or adds the named values. `sources` keeps the texts that the tree's spans point into.
void apply_overrides(Node& root, const std::vector<std::string>& overrides, std::deque<Source>& sources,
                     std::vector<Diagnostic>& diagnostics, const Schema& schema = spec_schema());

}  // namespace llmc::spec
