// out[i] = x[rows[i]]. rows [kRows]; x [tokens, kPitch]; out [kRows, kPitch].
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL gather_rows(const Act* x, const int* rows, Act* out) {
  const Group<kLanes> g;
  for (int row : g.rows(kRows)) {
    const auto values = g.load<kCols>(x + static_cast<long long>(rows[row]) * kPitch);
    g.store(out + static_cast<long long>(row) * kPitch, [](float v) { return v; }, values);
  }
}

}  // namespace llmc
