// Default params of templates for CPUs only, so that each compiles, lints and runs alone. A run's params replace this
// file.
#pragma once

#ifndef LLMC_PARAMS_GIVEN
#include "device/types.h"

namespace llmc {

using Act = float;
constexpr int kBatch = 2;
constexpr int kSequence = 100;
constexpr int kHeads = 4;
constexpr int kKvHeads = 2;
constexpr int kHeadDim = 32;
constexpr int kPitch = 256;
constexpr int kOutPitch = 128;
constexpr int kLanes = 1;
constexpr float kScale = 0.176776695f;

}  // namespace llmc
#endif
