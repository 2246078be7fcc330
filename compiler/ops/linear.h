// Declares the attributes of linear.
#pragma once

#include <string>

namespace llmc::ops {

struct LinearAttributes {
  bool bias = false;      // inputs[2] is the bias
  bool residual = false;  // the last input is added to the output
  std::string text() const;
};

}  // namespace llmc::ops
