// Declares the attributes of the backward op of swiglu.
#pragma once

#include <string>

namespace llmc::ops {

struct SwigluBackwardAttributes {
  bool recompute = false;  // the last output is the forward op's output, recomputed
  std::string text() const;
};

}  // namespace llmc::ops
