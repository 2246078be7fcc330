// Estimates the memory of a CPU trainer's process outside its arena.
#pragma once

#include <cstddef>

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// Returns an upper bound on the bytes of one rank's process, without its arena and the snapshot of a checkpoint: code
/// and libraries, oneDNN's memory for products, stacks, and batches prepared ahead. Assumes as many threads as
/// plan.device has processors. 0 on cuda, where a budget covers a program's device memory only (spec/targets.cpp).
std::size_t process_bytes(const Plan& plan);

}  // namespace llmc::plan
