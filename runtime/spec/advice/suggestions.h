// What to write instead: edits of a spec's tree, tried on it before they are shown.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "error.h"
#include "spec/diagnostics.h"
#include "spec/node.h"
#include "spec/spec.h"

namespace llmc::spec {

/// Why a spec without errors of its own cannot be planned: Exit::spec, Exit::does_not_fit, or Exit::done where it can.
using Accept = std::function<Exit(const Spec&)>;

/// What reading a tree gives: a spec, or what is wrong with it.
struct Examined {
  Spec spec;
  std::vector<Diagnostic> diagnostics;
};
using Examine = std::function<Examined(const Node& root)>;

/// Changes the tree; false where the edit has no place in it. `sources` keeps the texts that new nodes point into.
bool apply_edit(Node& root, const Edit& edit, std::deque<Source>& sources);

/// Replaces the advice of each diagnostic by the edits that are sound, where there are any.
void suggest(const Node& root, const Examine& examine, const Accept& accept, std::deque<Source>& sources,
             std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
