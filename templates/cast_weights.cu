// Writes the copies of the weights that matrix products read: copy = master, rounded to nearest. Flat parameter buffers;
// chunks [begin, end).
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL cast_weights(const float* master, Act* copy, const Chunk* chunks, int begin, int end) {
  const Group<kLanes> g;
  for (int i : g.rows(end - begin)) {
    const Chunk chunk = chunks[begin + i];
    g.each_of(chunk.length, [=](int e) { copy[chunk.offset + e] = from_float<Act>(master[chunk.offset + e]); });
  }
}

}  // namespace llmc
