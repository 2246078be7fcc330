// Splits an fp32 number into the bf16 that products read, rounded to nearest even, and the rest, from which the number
// is joined exactly.
//
// The rest is the lower 16 bits. A bf16 that was rounded up, which the rest tells, is one more than the upper 16 bits.
// A rest of 0x8000 lies in the middle of two bf16 and is rounded to the even one, from either side: 2^16 + 1 numbers
// have an even bf16, and 16 bits cannot tell them apart. So a tie has a bit of its own.
#pragma once

#include "device/math.h"
#include "device/types.h"

namespace llmc {

struct SplitNumber {
  bf16 copy;
  rest16 rest;
  unsigned up;  // 1: a tie that was rounded up; else 0
};

/// The bf16 of NaN is NaN, and so is what is joined from it.
LLMC_HD inline SplitNumber split(float v) {
  const unsigned bits = __builtin_bit_cast(unsigned, v), rest = bits & 0xffffu, odd = bits >> 16 & 1u;
  return {from_float<bf16>(v), {static_cast<unsigned short>(rest)}, rest == 0x8000u ? odd : 0u};
}

/// Inverse of split(). `copy` and `rest`: bits.
LLMC_HD inline float joined(unsigned copy, unsigned rest, unsigned up) {
  const unsigned upper = copy - ((rest > 0x8000u ? 1u : 0u) | up);
  return __builtin_bit_cast(float, upper << 16 | rest);
}

}  // namespace llmc
