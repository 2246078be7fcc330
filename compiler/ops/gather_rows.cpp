// gather_rows: y[i] = x[rows[i]].
#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// x, rows -> y
void signature(const Operands& o) { o.count(2, 1); }

std::vector<Work> work(const Context& c) {
  const Tensor &x = c.in(0), &y = c.out(0);
  return {Instance(c, "gather_rows")
              .element(x.dtype)
              .integer("kRows", y.rows, "batch.micro_batch")
              .integer("kCols", x.cols, kHidden)
              .integer("kPitch", x.pitch, kHidden)
              .costs(2 * c.bytes(y), 0)
              .rows(y.rows, x.cols, x.dtype, all_operands(c.op))};
}

}  // namespace

constexpr OpRow kGatherRows = StepRow{.signature = signature, .work = work};

}  // namespace llmc::ops
