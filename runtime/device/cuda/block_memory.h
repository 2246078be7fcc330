// The memory that a launch asks for.
#pragma once

namespace llmc {

/// The block's shared memory, as much as its launch asks for.
extern __shared__ __align__(1024) unsigned char block_memory[];

}  // namespace llmc
