// Default params: one value for every name that a template reads, so that each template compiles, lints and runs alone.
// llmc replaces this file by the params of a run.
#pragma once

#ifndef LLMC_PARAMS_GIVEN
#include "device/types.h"

namespace llmc {

using Act = float;
constexpr int kRows = 64;
constexpr int kCols = 100;
constexpr int kPitch = 104;
constexpr float kEps = 1e-5f;
constexpr int kBlocks = 8;
constexpr bool kResidual = true;
constexpr bool kRecompute = true;
constexpr bool kInverse = false;
constexpr bool kGradient = true;
constexpr bool kCopy = false;
constexpr bool kNorms = true;
constexpr int kParameters = 4;
constexpr int kBatch = 2;
constexpr int kSequence = 32;
constexpr int kHeads = 4;
constexpr int kKvHeads = 2;
constexpr int kHeadDim = 8;
constexpr int kOutPitch = 32;
#if defined(__CUDACC__)
constexpr int kLanes = 32;
#else
constexpr int kLanes = 1;
#endif

}  // namespace llmc
#endif
