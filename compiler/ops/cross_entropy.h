// Declares the attributes of cross_entropy.
#pragma once

#include <string>

namespace llmc::ops {

struct CrossEntropyAttributes {
  bool gradient = false;  // the gradient overwrites the logits
  double z = 0;           // factor of the z-loss, which is part of the gradient alone
  std::string text() const;
};

}  // namespace llmc::ops
