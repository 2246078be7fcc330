// `trainer --batches`: prints the samples a step of the run is trained on, without a device.
#pragma once

#include "program/program.h"
#include "trainer/options.h"

namespace llmc {

/// Prints the steps of options.batches. For steps already saved, the samples they were trained on according to the
/// history; for later ones, the samples the run would train on if resumed with these options. Reads only. Throws
/// Failure(usage) for steps that the run does not have, Failure(checkpoint) if the history does not cover them, and the
/// failures of a start.
void print_batches(const Options& options, const ProgramInfo& info);

}  // namespace llmc
