// A program small enough to be checked by hand: a bigram model, softmax over one row of a table, trained by AdamW.
#pragma once

#include <string>

#include "program/program.h"

namespace llmc::fake {

constexpr std::int64_t kVocab = 12, kPitch = 16, kLength = 4, kMicroBatch = 2;

/// The resolved spec as the compiler prints it; paths are relative.
std::string spec_yaml();

/// FAKE_SKIP="3,4": the third and fourth optimizer step of this process see a loss that is not a number.
/// FAKE_SPIKE="3,4", FAKE_STEEP="3,4": or a loss that is 5 larger, or a gradient norm that is 50 larger.
/// FAKE_LENGTH=8, FAKE_MICRO_BATCH=1, FAKE_ROPE_THETA=100: a trainer that was built so.
/// FAKE_STEP_MS=20: each optimizer step takes that long at least.
/// FAKE_GATES="4,8": the fourth optimizer step of this process makes a file at-4 in its folder and waits for go-4; the
/// eighth too.
const Program& program();

}  // namespace llmc::fake
