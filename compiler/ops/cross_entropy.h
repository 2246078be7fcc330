// Declares the attributes of cross_entropy.
#pragma once

#include <string>

namespace llmc::ops {

struct CrossEntropyAttributes {
  bool gradient = false;  // the gradient overwrites the logits
  std::string text() const;
};

}  // namespace llmc::ops
