// Default params of the templates that only GPUs have, so that each compiles, lints and runs alone.
// llmc replaces this file by the params of a run.
#pragma once

#ifndef LLMC_PARAMS_GIVEN
#include "device/types.h"

namespace llmc {

constexpr int kBatch = 2;
constexpr int kSequence = 2048;
constexpr int kHeads = 32;
constexpr int kKvHeads = 8;
constexpr int kHeadDim = 64;
constexpr int kPitch = 3072;
constexpr int kOutPitch = 2048;
constexpr float kScale = 0.125f;
constexpr int kLanes = 128;

}  // namespace llmc
#endif
