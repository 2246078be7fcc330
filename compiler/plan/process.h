// What the process of a CPU's trainer takes beside its arena.
#pragma once

#include <cstddef>

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Bytes of one rank's process beside its arena and the snapshot of a checkpoint, at most: code and libraries, what
/// oneDNN takes for products, stacks, batches that are prepared ahead. Planned for as many threads as plan.device has
/// processors. 0 on cuda, where budgets are of the memory that a program has there (spec/targets.cpp).
std::size_t process_bytes(const Plan& plan);

}  // namespace llmc::plan
