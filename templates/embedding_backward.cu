// Gradient of an embedding, without atomics: the host sorted the positions by token, so that each run of equal tokens is
// one row of the table, added up by one group in the order of positions.
// dx [tokens, kPitch]; order: positions sorted by token; run r of token run_token[r] is order[run_begin[r] .. run_begin[r + 1]);
// dtable [vocabulary, kPitch] fp32, added to.
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL embedding_backward(const Act* dx, const int* order, const int* run_begin, const int* run_token,
                               const int* run_count, float* dtable) {
  const Group<kLanes> g;
  for (int run : g.rows(*run_count)) {
    float* row = dtable + static_cast<long long>(run_token[run]) * kPitch;
    for (int i = run_begin[run]; i < run_begin[run + 1]; ++i) {
      const auto values = g.load<kCols>(dx + static_cast<long long>(order[i]) * kPitch);
      const auto sums = g.load<kCols>(row);
      g.store(row, [](float total, float v) { return total + v; }, sums, values);
    }
  }
}

}  // namespace llmc
