// zero: the first micro-batch of a step zeroes the buffer that later ones add to.
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// -> zeros
void signature(const Operands& o) { o.count(0, 1); }

std::vector<Work> work(const Context& c) {
  return {{.call = Call::zero,
           .arguments = {c.op.outputs[0], std::to_string(c.out(0).bytes())},
           .bytes = static_cast<double>(c.out(0).bytes()),
           .adds = true}};
}

}  // namespace

constexpr OpRow kZero = StepRow{.signature = signature, .work = work};

}  // namespace llmc::ops
