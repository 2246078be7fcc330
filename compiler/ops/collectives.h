// The shares of a bucket in words of the emitted step.
#pragma once

#include <string>

#include "compiler/ops/op.h"

namespace llmc::ops {

/// Elements of one rank's share.
std::string share_text(const Tensor& bucket);

/// Where this rank's share begins in a buffer of shares.
std::string share_begin(const Context& c, const Tensor& bucket);

}  // namespace llmc::ops
