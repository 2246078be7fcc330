// loss_sum: adds the loss kernel's results for the rows of a micro-batch to the step's results.
#include "compiler/ops/backward.h"
#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// losses, lse, entropies, correct, scalars -> results
void signature(const Operands& o) { o.count(5, 1); }

/// The loss is the origin of gradients.
void gradient(Backward&, const Op&) {}

std::vector<Work> work(const Context& c) {
  const Tensor& losses = c.in(0);
  Work work = Instance(c, "loss_sum")
                  .integer("kRows", losses.cols, kTokens)
                  .costs(5 * c.bytes(losses), 5 * losses.cols)  // lse twice
                  .rows(1, losses.cols, DType::f32,
                        {c.op.inputs[0], c.op.inputs[1], c.op.inputs[2], c.op.inputs[3], c.op.inputs[4],
                         c.op.outputs[0], "!first"});
  work.adds = true;
  return {std::move(work)};
}

}  // namespace

constexpr OpRow kLossSum = ForwardRow{
    .signature = signature, .exact = kNoOutputs, .gradient = gradient, .model_flops = no_products, .work = work};

}  // namespace llmc::ops
