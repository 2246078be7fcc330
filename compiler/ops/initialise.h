// Declares the attribute of initialise.
#pragma once

#include <string>

#include "spec/spec.h"

namespace llmc::ops {

struct InitialiseAttributes {
  spec::Distribution distribution = spec::Distribution::normal;
  std::string text() const;
};

}  // namespace llmc::ops
