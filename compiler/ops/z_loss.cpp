// z_loss: reports z * mean(log-sum-exp^2) over the targets of a step, with which logits are kept from drifting
// (Chowdhery et al. 2022). Its gradient is part of cross_entropy's.
#include "compiler/ops/z_loss.h"

#include <fmt/format.h>

#include "compiler/ops/backward.h"
#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// lse, scalars -> reports
void signature(const Operands& o) { o.count(2, 1); }

/// cross_entropy emits it.
void gradient(Backward&, const Op&) {}

Argument element(const Tensor& reports, std::size_t i) {
  return i == 0 ? reports.name : fmt::format("{} + {}", reports.name, i);
}

std::vector<Work> work(const Context& c) {
  const Tensor& lse = c.in(0);
  const auto& of = c.op.as<ZLossAttributes>();
  Work work =
      Instance(c, "z_loss")
          .integer("kRows", lse.cols, kTokens)
          .real("kZLoss", of.z, "loss.z")
          .costs(c.bytes(lse), 2 * lse.cols)
          .rows(1, lse.cols, DType::f32, {c.op.inputs[0], c.op.inputs[1], element(c.out(0), of.report), "!first"});
  work.adds = true;
  return {std::move(work)};
}

}  // namespace

std::string ZLossAttributes::text() const { return fmt::format("z={} report={}", z, report); }

constexpr OpRow kZLoss = ForwardRow{
    .signature = signature, .exact = kNoOutputs, .gradient = gradient, .model_flops = no_products, .work = work};

}  // namespace llmc::ops
