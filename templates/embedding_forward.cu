// out[i] = table[tokens[i]]. tokens [kRows]; table [vocabulary, kPitch]; out [kRows, kPitch].
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL embedding_forward(const int* tokens, const Act* table, Act* out) {
  const Group<kLanes> g;
  for (int row : g.rows(kRows)) {
    const long long from = static_cast<long long>(tokens[row]) * kPitch;
    const auto x = g.load<kCols>(table + from);
    g.store(out + static_cast<long long>(row) * kPitch, [](float v) { return v; }, x);
  }
}

}  // namespace llmc
