// Default params, so that every template compiles, lints and runs without llmc. An instance gets its own params.h. The
// comment above a kernel says what its params mean.
#pragma once

#include "device/types.h"

#if !defined(LLMC_PARAMS_GIVEN)
namespace llmc {

using Residual = float;
using Act = bf16;
using Result = bf16;
using Source = float;
using Code = e4m3;
using Scale = float;
constexpr int kRows = 4096;
constexpr int kCols = 2048;
constexpr int kPitch = 2048;
constexpr int kBlocks = 256;
constexpr float kEps = 1e-5f;
constexpr float kZLoss = 1e-4f;
constexpr float kScale = 1.0f;
constexpr float kBeta = 0.1f;
constexpr bool kResidual = true;
constexpr bool kRecompute = true;
constexpr bool kGradient = true;
constexpr bool kInverse = false;
constexpr bool kScaled = false;
constexpr bool kUniform = false;
constexpr bool kTruncated = false;
constexpr bool kUnrotated = false;
constexpr bool kInterleaved = false;
constexpr bool kFolded = false;
constexpr bool kWeight = false;
constexpr bool kDown = false;
constexpr bool kNumbers = true;
constexpr bool kCodes = true;
constexpr bool kRecomputeCodes = true;
constexpr bool kStraight = true;
constexpr bool kCopy = true;
constexpr bool kSplit = false;
constexpr bool kNorms = true;
constexpr bool kResult = false;
constexpr bool kPolarExpress = false;
constexpr bool kAnyAddress = false;
constexpr bool kGradientShare = false;
constexpr bool kWeightShare = false;
constexpr int kGroups = -1;
constexpr int kBatch = 2;
constexpr int kSequence = 2048;
constexpr int kHeads = 40;
constexpr int kKvHeads = 8;
constexpr int kHeadDim = 64;
constexpr int kRotary = 32;
constexpr int kOriginal = 1024;
constexpr int kOutPitch = 2048;
constexpr int kWeightPitch = 64;
constexpr int kParameters = 148;
constexpr int kPart = 16384;
constexpr int kCluster = 1;
#if defined(__CUDACC__)
constexpr int kLanes = 64;
#else
constexpr int kLanes = 1;
#endif

}  // namespace llmc
#endif
