// Where a run is among its phases.
#pragma once

#include <algorithm>
#include <cstdint>

#include "program/program.h"

namespace llmc {

/// Phase of the step after `step`; that of the last one for a finished run. Only of a run with phases.
inline int phase_after(std::int64_t step, const PhaseInfo& phase) {
  return 1 + static_cast<int>(
                 std::ranges::count_if(phase.borders(), [step](std::int64_t border) { return border <= step; }));
}

}  // namespace llmc
