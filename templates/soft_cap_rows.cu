// soft_cap_rows: out = kSoftcap * tanh(x / kSoftcap).
#include "device/group.h"
#include "params.h"

namespace llmc {

/// x, out [kRows, kCols]. out may be x.
LLMC_BOUNDS(kLanes)
LLMC_KERNEL soft_cap_rows(const float* x, float* out) {
  const Group<kLanes> lanes;
  for (const int row : lanes.rows(kRows)) {
    lanes.store(lanes.row<kCols, kPitch>(out, row), lanes.row<kCols, kPitch>(x, row),
                [](float v) { return soft_cap(v, kSoftcap); });
  }
}

}  // namespace llmc
