// Declares the attributes of rope and of its backward op.
#pragma once

#include <string>

#include "compiler/ops/heads.h"

namespace llmc::ops {

struct RopeAttributes {
  Heads heads = {};
  bool rotates = true;  // otherwise the op leaves q and k as they are, and launches nothing
  bool resets = false;  // positions begin anew in each document: the last input is the first token of each token's
  std::string text() const;
};

}  // namespace llmc::ops
