// Whether a run fits into the memory of its machine, before any of it is used.
#pragma once

#include <cstddef>

#include "program/program.h"

namespace llmc {

/// Throws Failure(does_not_fit) where `ranks` processes of `arena_bytes` each, with what the plan counts beside an
/// arena, are more than this process may take: the system would kill the run once it has touched all of it. Nothing on
/// cuda.
void check_fits(const ProgramInfo& info, std::size_t arena_bytes, int ranks = 1);

/// The same of all ranks of a run of one machine.
void check_ranks_fit(const ProgramInfo& info, int ranks);

}  // namespace llmc
