// audit_loss: loss[t] = log(sum(exp(logits[t]))) - logits[t][target[t]] of logits in fp32, with exp, sum and log in
// double. It shares no code with the loss of training.
#include <fmt/format.h>

#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// logits, targets -> losses
void signature(const Operands& o) {
  o.count(2, 1);
  o.expect(o.in(0).dtype == DType::f32, "logits are fp32");
  o.expect(o.in(1).cols == o.graph.tokens() && o.out(0).cols == o.graph.tokens(), "one target and one loss a token");
}

/// A row is read twice: for its largest logit and for the sum.
std::vector<Work> work(const Context& c) {
  const Tensor& logits = c.in(0);
  const std::int64_t rows = c.rows(logits);
  return {Instance(c, "audit_loss")
              .integer("kRows", rows, "memory.loss_chunk")
              .integer("kCols", logits.cols, kVocab)
              .integer("kPitch", logits.pitch, kVocab)
              .costs(2.0 * static_cast<double>(bytes_of(logits.dtype, rows * logits.cols)) + 8.0 * rows,
                     30.0 * rows * logits.cols)
              .rows(rows, logits.cols, logits.dtype, all_operands(c.op))};
}

}  // namespace

constexpr OpRow kAuditLoss = StepRow{.signature = signature, .work = work};

}  // namespace llmc::ops
