// Declares the attributes of swiglu and of its backward op.
#pragma once

#include <string>

#include "spec/spec.h"

namespace llmc::ops {

struct SwigluAttributes {
  spec::HiddenAct act = spec::HiddenAct::silu;
  bool gated = true;  // otherwise the activation alone
  std::string text() const;
};

struct SwigluBackwardAttributes {
  bool recompute = false;  // the last output is the forward op's output, recomputed
  spec::HiddenAct act = spec::HiddenAct::silu;
  bool gated = true;
  std::string text() const;
};

}  // namespace llmc::ops
