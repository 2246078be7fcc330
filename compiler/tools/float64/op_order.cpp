#include "compiler/tools/float64/op_order.h"

#include <fmt/format.h>

#include "compiler/ops/op.h"
#include "compiler/plan/schedule_walk.h"

namespace llmc::float64 {

using namespace graph;

namespace {

/// Adds every op of a pass but collectives, chunk by chunk.
void add(const plan::Plan& plan, plan::PassName pass, std::int64_t step, std::int64_t micro,
         std::vector<ScheduledOp>& launches) {
  for (const plan::Stop& stop : plan::stops(plan.schedule, pass)) {
    if (stop.item->does != plan::ScheduleItem::Does::run) continue;
    const std::vector<Op>& ops = plan.graph.regions[stop.region].ops;
    for (std::int64_t chunk = 0; chunk < stop.times(); ++chunk)
      for (std::size_t i = 0; i < ops.size(); ++i)
        if (!is_between_ranks(ops[i].kind) && (micro == 0 || !ops[i].once))
          launches.push_back({stop.region, i, stop.layer, chunk, step, micro, micro == 0 && chunk == 0});
  }
}

}  // namespace

std::vector<ScheduledOp> scheduled_ops(const plan::Plan& plan, std::int64_t steps) {
  std::vector<ScheduledOp> launches;
  add(plan, plan::PassName::initialise, 0, 0, launches);
  add(plan, plan::PassName::refresh_copies, 0, 0, launches);
  for (std::int64_t step = 1; step <= steps; ++step) {
    for (std::int64_t micro = 0; micro < plan.micro_batches(); ++micro)
      add(plan, plan::PassName::micro_batch, step, micro, launches);
    add(plan, plan::PassName::optimizer_step, step, 0, launches);
  }
  add(plan, plan::PassName::join_masters, steps, 0, launches);  // for the checkpoint at the end
  return launches;
}

std::string text_of(const plan::Plan& plan, const ScheduledOp& launch) {
  const Region& region = plan.graph.regions[launch.region];
  std::string text = launch.step ? fmt::format("step {}", launch.step) : "at start";
  if (region.trains() && plan.micro_batches() > 1) text += fmt::format(", micro-batch {}", launch.micro + 1);
  if (region.block == Block::layer) text += fmt::format(", layer {}", launch.layer);
  if (region.loop == Loop::loss_chunks && plan.graph.tokens() > plan.graph.chunk_rows)
    text += fmt::format(", chunk {}", launch.chunk);
  return fmt::format("{}: op {} of {}", text, region.ops[launch.op].label(), region.name);
}

std::string what_runs(const plan::Plan& plan, const ScheduledOp& launch) {
  std::string text;
  for (const plan::Launch& l : plan.launches) {
    if (l.region_index != launch.region || l.op_index != launch.op) continue;
    text += (text.empty() ? "" : ", ") + fmt::format("{} {}", l.kind(), l.what);
    if (l.call == ops::Call::kernel || is_in_attention(l.call))
      text += " of templates/" + plan.kernels[l.kernel].source;
  }
  return text;
}

}  // namespace llmc::float64
