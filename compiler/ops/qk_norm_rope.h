// Declares the attributes of qk_norm_rope and of its backward op.
#pragma once

#include <string>

#include "compiler/ops/heads.h"
#include "spec/spec.h"

namespace llmc::ops {

struct QkNormRopeAttributes {
  Heads heads = {};
  double eps = 0;
  bool rotates = true;      // otherwise only the norm
  bool alone = false;       // an op of its own rotates, and the table is a constant of ones; not with rotates
  bool width = false;       // one norm over all heads of q, and one over those of k
  bool resets = false;      // positions begin anew in each document: the last input is the first token of each token's
  bool after_rope = false;  // the norm is of rotated heads; not with width
  spec::NormWeight weight = spec::NormWeight::plain;  // none: the input is a constant of ones
  std::string text() const;
};

struct QkNormRopeBackwardAttributes {
  Heads heads = {};
  bool rotates = true, alone = false, width = false, resets = false, after_rope = false;
  spec::NormWeight weight = spec::NormWeight::plain;  // none: no output is its gradient
  std::string text() const;
};

}  // namespace llmc::ops
