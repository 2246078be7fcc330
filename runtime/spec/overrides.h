// `key.path=value` from a command line, laid over the tree of a file.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "spec/diagnostics.h"
#include "spec/node.h"

namespace llmc::spec {

/// Values of maps are merged key by key; everything else is replaced.
void merge(Node& base, Node over);

/// Puts a value at a path, making the maps and lists of one on the way.
void place_value(Node& root, const std::vector<KeyText>& words, Node value);

/// Replaces or adds the named values. The texts are kept in `sources`, which the tree's spans point into.
void apply_overrides(Node& root, const std::vector<std::string>& overrides, std::deque<Source>& sources,
                     std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
