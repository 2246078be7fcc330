// Declares the attributes of swiglu and of its backward op.
#pragma once

#include <string>

namespace llmc::ops {

struct SwigluAttributes {
  bool gelu = false;  // GeGLU: the gate's activation is GELU by its tanh formula
  std::string text() const;
};

struct SwigluBackwardAttributes {
  bool recompute = false;  // the last output is the forward op's output, recomputed
  bool gelu = false;
  std::string text() const;
};

}  // namespace llmc::ops
