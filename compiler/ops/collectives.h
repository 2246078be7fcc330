// Returns C++ expressions for a rank's shard of a bucket, as the emitted step contains them.
#pragma once

#include <string>
#include <vector>

#include "compiler/ops/rows.h"

namespace llmc::ops {

/// Number of elements of one rank's shard.
std::string share_text(const Context& c, const Tensor& bucket);

/// Offset of this rank's shard in a buffer of shards.
std::string share_begin(const Context& c, const Tensor& bucket);

}  // namespace llmc::ops
