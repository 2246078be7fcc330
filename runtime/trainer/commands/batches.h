// `trainer --batches`: which samples a step of the run is trained on, without a device.
#pragma once

#include "program/program.h"
#include "trainer/options.h"

namespace llmc {

/// Prints the steps of options.batches: of those that the run has saved, what it was trained on, as its history has it;
/// of later ones, what the run trains on when it goes on with these options. Looks, and writes nothing. Throws Failure:
/// (usage) for steps that the run does not have, (checkpoint) where its history does not tell, and what a start throws.
void print_batches(const Options& options, const ProgramInfo& info);

}  // namespace llmc
