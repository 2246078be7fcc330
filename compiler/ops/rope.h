// Declares the attributes of rope and of its backward op.
#pragma once

#include <string>

#include "compiler/ops/heads.h"

namespace llmc::ops {

struct RopeAttributes {
  Heads heads = {};
  bool rotates = true;  // otherwise the op leaves q and k as they are, and launches nothing
  std::string text() const;
};

}  // namespace llmc::ops
