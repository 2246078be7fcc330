// Declares the attributes of the optimizer's ops.
#pragma once

#include <string>

namespace llmc::ops {

struct AdamwAttributes {
  bool copies = false;  // writes the parameters' copies too
  bool norms = false;   // writes sums of squares of each chunk's weights and of their updates
  std::string text() const;
};

}  // namespace llmc::ops
