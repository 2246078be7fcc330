// Muon (Jordan et al. 2024): its momentum, whose orthogonalised direction stands in place of the gradient, and the
// update by that.
#include <fmt/format.h>

#include "compiler/ops/instance.h"
#include "compiler/ops/muon/muon.h"
#include "compiler/ops/rows.h"
#include "compiler/ops/update.h"

namespace llmc::ops {
namespace {

/// results, gradients, chunks, Muon's scalars, momentum: the gradients become Nesterov's direction
void momentum_signature(const Operands& o) { o.count(kMomentumState + 1, 0); }

std::vector<Work> momentum_work(const Context& c) {
  const auto& in = c.op.inputs;
  const GroupSet groups = c.op.as<UpdateAttributes>().groups;
  const auto elements = static_cast<double>(c.flat.elements_of(groups));
  return {Instance(c, "muon_momentum")
              .share("kGradientShare", Use::gradients)
              .groups(groups)
              .costs(16 * elements, 8 * elements)
              .stream(c.flat, {in[kMomentumGradients], state_argument(c, in[kMomentumState]), in[kMomentumChunks], "0",
                               "kChunkCount", in[kMomentumScalars], in[kMomentumResults]})};
}

std::vector<Work> muon_work(const Context& c) { return update_work(c, 5, "muon"); }

}  // namespace

constexpr OpRow kMuonMomentum = StepRow{.signature = momentum_signature,
                                        .changes = input(kMomentumGradients) | input(kMomentumState),
                                        .work = momentum_work};

constexpr OpRow kMuon = StepRow{.signature = update_signature,
                                .scratch = sum_a_chunk,
                                .changes = update_changes(0),
                                .updates_weights = true,
                                .work = muon_work};

}  // namespace llmc::ops
