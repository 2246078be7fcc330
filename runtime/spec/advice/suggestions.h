// Suggests edits of a spec's tree; each is tried on the tree before it is shown.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "error.h"
#include "spec/diagnostics.h"
#include "spec/node.h"
#include "spec/schema/schema.h"

namespace llmc::spec {

/// Decides whether a spec without errors of its own can be planned: Exit::spec or Exit::does_not_fit if not, Exit::done
/// if it can.
using Accept = std::function<Exit(const Spec&)>;

/// Result of reading a tree: a spec, or its errors.
struct Examined {
  Spec spec;
  std::vector<Diagnostic> diagnostics;
};
using Examine = std::function<Examined(const Node& root)>;

/// Applies the edit to the tree; returns false if it has no place in it. `sources` keeps the texts that new nodes point
/// into.
bool apply_edit(Node& root, const Edit& edit, std::deque<Source>& sources, const Schema& schema);

/// Replaces the advice of each diagnostic by sound edits, if there are any.
void suggest(const Node& root, const Examine& examine, const Accept& accept, std::deque<Source>& sources,
             std::vector<Diagnostic>& diagnostics, const Schema& schema = spec_schema());

}  // namespace llmc::spec
