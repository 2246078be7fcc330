// Declares the attributes of rms_norm and of its backward op.
#pragma once

#include <string>

namespace llmc::ops {

struct RmsNormAttributes {
  double eps = 0;
  bool residual = false;  // the last input is added to the first output
  bool copy = false;      // the last output is the first one in the compute dtype
  std::string text() const;
};

struct RmsNormBackwardAttributes {
  bool residual = false;   // the last input is added to the first output
  bool recompute = false;  // the last output is the forward op's output, recomputed
  std::string text() const;
};

}  // namespace llmc::ops
