// Declares the attributes of ops that update weights.
#pragma once

#include <string>

namespace llmc::ops {

/// Of an op that updates all weights.
struct UpdateAttributes {
  bool copies = false;  // writes the parameters' copies too
  bool norms = false;   // writes sums of squares of each chunk's weights and of their updates
  std::string text() const;
};

}  // namespace llmc::ops
