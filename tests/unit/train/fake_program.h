// A program small enough to be checked by hand: a bigram model, softmax over one row of a table, trained by AdamW.
#pragma once

#include <string>

#include "train/program.h"

namespace llmc::fake {

constexpr std::int64_t kVocab = 12, kPitch = 16, kLength = 4, kMicroBatch = 2;

/// The keys of a spec as the compiler prints them; paths are relative.
std::string keys_json();

/// FAKE_SKIP="3,4": the third and fourth optimizer step of this process see a loss that is not a number.
/// FAKE_STEP_MS=20: each optimizer step takes that long at least.
const Program& program();

}  // namespace llmc::fake
