// Parts of a step that `trainer calibrate` runs alone (runtime/trainer/commands/calibrate.h): which launches they are,
// and their work.
#pragma once

#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Launches of one layer, of the first variant where layers differ, that the emitted step runs for a piece: attention's
/// one pass or the other, or all other kernels of both passes. In the order of the step. Empty of StepPiece::optimizer
/// and StepPiece::pass, which are functions of the step already.
std::vector<const Launch*> launches_of(const Plan& plan, StepPiece piece);

/// What running it once takes. FLOPs of attention: two products forward and five backward over half of the square,
/// whatever its kernels compute again. Bytes of the optimizer: 0 where it multiplies matrices.
PieceWork work_of(const Plan& plan, StepPiece piece);

}  // namespace llmc::plan
