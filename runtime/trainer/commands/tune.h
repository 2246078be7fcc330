// `trainer tune`: finds the fastest GEMM algorithms for this run on this GPU, and the faster backward pass of
// attention.
#pragma once

#include "program/program.h"

namespace llmc {

/// Prints a line for each GEMM and each variant of attention's backward pass, and writes tuned_file(). Throws like
/// tune_products(). `sustained_ms`: as in TuneHow.
void tune(const ProgramInfo& info, int device, double sustained_ms);

}  // namespace llmc
