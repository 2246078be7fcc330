// Conditions between keys: what divides what, what fits into what, and which keys mean nothing without another.
#pragma once

#include <vector>

#include "spec/binder.h"
#include "spec/diagnostics.h"

namespace llmc::spec {

/// Appends an error for every broken condition among usable keys, with the places of all keys in it.
void check_relations(const Bound& bound, std::vector<Diagnostic>& diagnostics);

/// The same of the conditions that run-time values are part of.
void check_run_relations(const Bound& bound, std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
