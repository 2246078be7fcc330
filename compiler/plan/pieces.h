// Parts of a step that `trainer calibrate` runs alone (runtime/trainer/commands/calibrate.h): their launches and work.
#pragma once

#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Returns the launches of one layer (the first variant) that the emitted step runs for a piece, in the step's order:
/// attention's forward or backward pass, or all other kernels of both passes. Empty for StepPiece::optimizer and
/// StepPiece::pass, which already are functions of the step.
std::vector<const Launch*> launches_of(const Plan& plan, StepPiece piece);

/// Returns the work of one run. FLOPs of attention: two products forward and five backward over half of the square,
/// without recomputation in kernels. Bytes of the optimizer: 0 if it multiplies matrices.
PieceWork work_of(const Plan& plan, StepPiece piece);

}  // namespace llmc::plan
