// Checks relations between keys: divisibility, sizes that must fit, and keys without effect unless another is set.
#pragma once

#include <vector>

#include "spec/binder.h"
#include "spec/diagnostics.h"

namespace llmc::spec {

/// Appends an error for every violated relation among usable keys, with the locations of all its keys.
void check_relations(const BoundSpec& bound, std::vector<Diagnostic>& diagnostics);

/// Same for relations that involve run-time values.
void check_run_relations(const BoundSpec& bound, std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
