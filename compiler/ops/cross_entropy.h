// Declares the attributes of cross_entropy, and of soft_cap.
#pragma once

#include <string>

namespace llmc::ops {

struct CrossEntropyAttributes {
  bool gradient = false;  // the gradient overwrites the logits
  double z = 0;           // factor of the z-loss, which is part of the gradient alone
  double softcap = 0;     // of the logits; 0: none
  std::string text() const;
};

struct SoftCapAttributes {
  double cap = 0;
  std::string text() const;
};

}  // namespace llmc::ops
