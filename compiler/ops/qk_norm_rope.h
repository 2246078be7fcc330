// Declares the attributes of qk_norm_rope and of its backward op.
#pragma once

#include <string>

#include "compiler/ops/heads.h"

namespace llmc::ops {

struct QkNormRopeAttributes {
  Heads heads = {};
  double eps = 0;
  bool rotates = true;  // otherwise only the norm
  std::string text() const;
};

struct QkNormRopeBackwardAttributes {
  Heads heads = {};
  bool rotates = true;
  std::string text() const;
};

}  // namespace llmc::ops
