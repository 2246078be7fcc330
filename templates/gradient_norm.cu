// First stage of the gradient's norm: partial[c] = sum of squares of chunk c, for c in [begin, end).
// gradients: the flat buffer.
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL gradient_norm(const float* gradients, const Chunk* chunks, float* partial, int begin, int end) {
  const Group<kLanes> g;
  for (int i : g.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    const float* values = gradients + chunk.offset;
    const float total = g.sum_to(chunk.length, [=](int e) { return values[e] * values[e]; });
    if (g.first()) partial[begin + i] = total;
  }
}

}  // namespace llmc
