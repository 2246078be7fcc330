// Declares the attributes of qk_norm_rope and of its backward op.
#pragma once

#include <string>

#include "compiler/ops/heads.h"

namespace llmc::ops {

struct QkNormRopeAttributes {
  Heads heads = {};
  double eps = 0;
  bool rotates = true;  // otherwise only the norm
  bool width = false;   // one norm over all heads of q, and one over those of k
  std::string text() const;
};

struct QkNormRopeBackwardAttributes {
  Heads heads = {};
  bool rotates = true, width = false;
  std::string text() const;
};

}  // namespace llmc::ops
