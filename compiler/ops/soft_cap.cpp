// soft_cap: y = cap * tanh(x / cap) of fp32 logits outside of training, where cross_entropy has it.
#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// x -> y
void signature(const Operands& o) {
  o.count(1, 1);
  o.same_shape(o.in(0), o.out(0));
  o.expect(o.in(0).dtype == DType::f32, "logits are fp32");
}

std::vector<Work> work(const Context& c) {
  const Tensor& x = c.in(0);
  const std::int64_t rows = c.rows(x);
  return {Instance(c, "soft_cap_rows")
              .named(std::to_string(rows))
              .integer("kRows", rows, "batch.micro_batch, memory.loss_chunk")
              .integer("kCols", x.cols, kVocab)
              .integer("kPitch", x.pitch, kVocab)
              .real("kSoftcap", c.op.as<SoftCapAttributes>().cap, "model.final_logit_softcapping")
              .costs(2 * c.bytes(x), 20.0 * rows * x.cols)
              .rows(rows, x.cols, x.dtype, all_operands(c.op))};
}

}  // namespace

constexpr OpRow kSoftCap = StepRow{.signature = signature, .work = work};

}  // namespace llmc::ops
