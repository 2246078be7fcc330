// Declares the attributes of rope and of its backward op.
#pragma once

#include <string>

#include "compiler/ops/heads.h"

namespace llmc::ops {

struct RopeAttributes {
  Heads heads = {};
  std::int64_t rotary = 0;   // elements that are rotated, the first of each head
  bool interleaved = false;  // in pairs (2i, 2i + 1), otherwise (i, i + rotary / 2)
  double beta = 0;           // q is multiplied by 1 + beta log(1 + floor(position / original)); 0: it is not
  std::int64_t original = 0;
  bool rotates = true;  // otherwise the op leaves q and k as they are, and launches nothing
  bool resets = false;  // positions begin anew in each document: the last input is the first token of each token's
  /// Whether all elements of a head are rotated, in pairs of its halves, and nothing else is done.
  bool whole() const { return rotary == heads.dim && !interleaved && beta == 0; }
  std::string text() const;
};

}  // namespace llmc::ops
