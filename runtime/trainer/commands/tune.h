// `trainer tune`: which algorithms multiply this run's matrices fastest on this GPU, and which backward pass of
// attention is faster.
#pragma once

#include "program/program.h"

namespace llmc {

/// Prints a line for each product and each way through attention's backward pass, and writes tuned_file(). Throws as
/// tune_products().
/// `sustained_ms`: TuneHow's.
void tune(const ProgramInfo& info, int device, double sustained_ms);

}  // namespace llmc
