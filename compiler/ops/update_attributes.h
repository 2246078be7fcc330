// Declares the attributes of ops that update weights.
#pragma once

#include <string>

#include "program/parameters.h"

namespace llmc::ops {

/// Of an op that updates the weights of some groups of parameters, or all.
struct UpdateAttributes {
  bool copies = false;  // also writes the parameters' copies
  bool norms = false;   // writes sums of squares of each chunk's weights and of their updates
  GroupSet groups = kAllGroups;
  bool split = false;  // of masters that are split: the first output is the copies, the second the ties
  std::string text() const;
};

}  // namespace llmc::ops
