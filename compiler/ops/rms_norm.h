// Declares the attributes of rms_norm and of its backward op.
#pragma once

#include <string>

#include "spec/spec.h"

namespace llmc::ops {

/// "", " one_plus" or " unweighted", for dumps.
std::string text_of(spec::NormWeight weight);

struct RmsNormAttributes {
  double eps = 0;
  bool residual = false;                              // the last input is added to the first output
  bool copy = false;                                  // the last output is the first one in the compute dtype
  spec::NormWeight weight = spec::NormWeight::plain;  // none: the input is a constant of ones
  std::string text() const;
};

struct RmsNormBackwardAttributes {
  bool residual = false;                              // the last input is added to the first output
  bool recompute = false;                             // the last output is the forward op's output, recomputed
  spec::NormWeight weight = spec::NormWeight::plain;  // none: no output is its gradient
  std::string text() const;
};

}  // namespace llmc::ops
