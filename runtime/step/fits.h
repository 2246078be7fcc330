// Checks whether a run fits into the memory of its machine before using any of it.
#pragma once

#include <cstddef>

#include "program/program.h"

namespace llmc {

/// Throws Failure(does_not_fit) if `ranks` processes need more than this process may use: `arena_bytes` each, and the
/// plan's estimate for the rest of the process. The system would kill the run once it had touched all of it. Does
/// nothing on cuda.
void check_fits(const ProgramInfo& info, std::size_t arena_bytes, int ranks = 1);

/// Same for all ranks of a run on one machine.
void check_ranks_fit(const ProgramInfo& info, int ranks);

}  // namespace llmc
