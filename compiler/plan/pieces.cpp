#include "compiler/plan/pieces.h"

#include <algorithm>

#include "compiler/ops/attention/attention.h"

namespace llmc::plan {

using namespace graph;

namespace {

bool is_in(const Graph& graph, const Region& region, const Op& op, const Launch& launch, StepPiece piece) {
  if (region.block != Block::layer || !graph.serves(region, graph.variants.front())) return false;
  const bool forward = region.is_forward(), backward = region.is_backward();
  if (is_in_attention(launch.call)) return false;
  const ops::PricedAs priced_as = ops::row_of(op.kind).priced_as;
  switch (piece) {
    case StepPiece::attention_forward: return forward && priced_as == ops::PricedAs::attention_forward;
    case StepPiece::attention_backward: return backward && priced_as == ops::PricedAs::attention_backward;
    case StepPiece::kernels:
      return (forward || backward) && launch.call == ops::Call::kernel && priced_as == ops::PricedAs::bytes_moved;
    case StepPiece::optimizer:
    case StepPiece::pass: break;
  }
  return false;
}

}  // namespace

std::vector<const Launch*> launches_of(const Plan& plan, StepPiece piece) {
  std::vector<const Launch*> launches;
  for (const Launch& launch : plan.launches) {
    const Region& region = plan.graph.regions[launch.region_index];
    if (is_in(plan.graph, region, region.ops[launch.op_index], launch, piece)) launches.push_back(&launch);
  }
  return launches;
}

PieceWork work_of(const Plan& plan, StepPiece piece) {
  PieceWork work{};
  const auto add = [&](const Launch& launch) {
    // The trainer times pieces on one rank.
    const bool shared = launch.call == ops::Call::kernel && plan.kernels[launch.kernel].ranks > 1;
    work.bytes += shared ? plan.kernels[launch.kernel].bytes : launch.bytes;
    ++work.launches;
  };
  if (piece == StepPiece::optimizer) {
    bool products = false;
    for (const Launch& launch : plan.launches) {
      if (!plan.graph.regions[launch.region_index].is_optimizer() || !launch.times) continue;
      for (std::int64_t i = 0; i < launch.times; ++i) add(launch);
      products |= launch.call == ops::Call::product;
    }
    return products ? PieceWork{} : work;
  }
  for (const Launch* launch : launches_of(plan, piece)) add(*launch);
  if (piece == StepPiece::kernels || work.launches == 0) return work;
  const Launch& first = *launches_of(plan, piece).front();
  const Op& op = plan.graph.regions[first.region_index].ops[first.op_index];
  const double products = piece == StepPiece::attention_forward ? 2 : 5;
  work.flops = products * ops::product_of_scores(plan.graph, op);
  return work;
}

}  // namespace llmc::plan
