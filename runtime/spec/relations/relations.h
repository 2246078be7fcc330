// Checks relations between keys: divisibility, sizes that must fit, and keys without effect unless another is set.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/binder.h"
#include "spec/diagnostics.h"

namespace llmc::spec {

/// Appends an error for every violated relation among usable keys, with the locations of all its keys.
void check_relations(const BoundSpec& bound, std::vector<Diagnostic>& diagnostics);

/// Same for relations that involve run-time values.
void check_run_relations(const BoundSpec& bound, std::vector<Diagnostic>& diagnostics);

/// Whether the values of a spec violate no relation, whichever of them are given.
bool relations_hold(const Spec& spec);

/// Largest micro_batch whose rows are counted in 32 bits: those of sequence_length, on cuda for each head, as attention
/// counts them there. 0: one sequence has too many.
std::int64_t most_micro_batch(const Spec& spec);

}  // namespace llmc::spec
