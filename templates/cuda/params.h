// Default params of templates for GPUs only, so that each compiles, lints and runs alone. A run's params replace this
// file.
#pragma once

#ifndef LLMC_PARAMS_GIVEN
#include "device/types.h"

namespace llmc {

using Act = bf16;
using Code = e5m2;
constexpr int kHeight = 3072;
constexpr int kWidth = 2048;
constexpr int kBatch = 2;
constexpr int kSequence = 2048;
constexpr int kHeads = 32;
constexpr int kKvHeads = 8;
constexpr int kHeadDim = 64;
constexpr int kPitch = 3072;
constexpr int kOutPitch = 2048;
constexpr float kScale = 0.125f;
constexpr bool kFolded = false;
constexpr bool kStraight = true;
constexpr int kBlocks = 256;
constexpr int kCluster = 2;
constexpr int kLanes = 128;

}  // namespace llmc
#endif
