// Declares the attributes of cross_entropy.
#pragma once

#include <string>

namespace llmc::ops {

struct CrossEntropyAttributes {
  bool gradient = false;  // the logits are overwritten by their gradient
  std::string text() const;
};

}  // namespace llmc::ops
