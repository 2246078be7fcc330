// Declares the attributes of z_loss.
#pragma once

#include <cstddef>
#include <string>

namespace llmc::ops {

struct ZLossAttributes {
  double z = 0;            // spec::Loss::z
  std::size_t report = 0;  // index into Graph::reports
  std::string text() const;
};

}  // namespace llmc::ops
