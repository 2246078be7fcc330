// Prints the shards of a bucket in the emitted step.
#pragma once

#include <string>
#include <vector>

#include "compiler/ops/rows.h"

namespace llmc::ops {

/// Elements of one rank's share.
std::string share_text(const Context& c, const Tensor& bucket);

/// Offset of this rank's shard in a buffer of shards.
std::string share_begin(const Context& c, const Tensor& bucket);

}  // namespace llmc::ops
