// A program small enough to check by hand: a bigram model, softmax over one row of a table, trained by AdamW.
#pragma once

#include <string>

#include "program/program.h"

namespace llmc::fake {

constexpr std::int64_t kVocab = 12, kPitch = 16, kLength = 4, kMicroBatch = 2;

/// Resolved spec as printed by the compiler; paths are relative.
std::string spec_yaml();

/// FAKE_SKIP="3,4": the third and fourth optimizer step of this process get a loss that is not finite.
/// FAKE_SPIKE="3,4", FAKE_STEEP="3,4": a loss larger by 5, or a gradient norm larger by 50.
/// FAKE_LENGTH=8, FAKE_MICRO_BATCH=1, FAKE_ROPE_THETA=100: a trainer built with these values.
/// FAKE_STEP_MS=20: each optimizer step takes at least this long.
/// FAKE_GATES="4,8": the fourth and the eighth optimizer step of this process create a file at-4 (at-8) in its folder
/// and wait for go-4 (go-8).
const Program& program();

}  // namespace llmc::fake
