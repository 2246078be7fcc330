// Conditions between keys: what divides what, what fits into what, and which keys mean nothing without another.
#pragma once

#include <vector>

#include "compiler/spec/binder.h"
#include "compiler/spec/diagnostics.h"

namespace llmc::spec {

/// Appends an error for every broken condition among usable keys, with the places of all keys in it.
void check_relations(const Bound& bound, std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
