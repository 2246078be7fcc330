// Declares the attributes of linear, and of ops that have its scale alone.
#pragma once

#include <string>

namespace llmc::graph {
struct Op;
}

namespace llmc::ops {

struct LinearAttributes {
  bool bias = false;      // inputs[2] is the bias
  bool residual = false;  // the last input is added to the output
  double scale = 1;       // of the product; not with a bias
  std::string text() const;
};

/// Of embedding, its backward op, and both products of linear's backward pass: a factor of the result.
struct ScaleAttributes {
  double scale = 1;
  std::string text() const;
};

/// ScaleAttributes::scale; 1 if the op has no such attribute.
double scale_of(const graph::Op& op);

}  // namespace llmc::ops
