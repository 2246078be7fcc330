// Memory of a block that its launch asks for. Linked into programs whose kernels use it.
#include "cuda_runtime.h"
#include "lanes.h"

namespace llmc {

extern __shared__ __align__(1024) unsigned char block_memory[];
__shared__ __align__(1024) unsigned char block_memory[sim::kMostShared];

}  // namespace llmc
