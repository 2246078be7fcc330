#include "compiler/plan/live.h"

#include <algorithm>

#include "compiler/plan/schedule_walk.h"

namespace llmc::plan {

using namespace graph;

namespace {

std::size_t stream_stride(const Plan& plan) { return plan.layout.fixed.at(plan.graph.stream.below).layer_stride; }

}  // namespace

std::vector<RegionLife> region_lives(const Plan& plan) {
  const Graph& g = plan.graph;
  const std::size_t stride = stream_stride(plan);
  std::vector<RegionLife> lives(g.regions.size());
  for (std::size_t r = 0; r < lives.size(); ++r) {
    const Region& region = g.regions[r];
    const bool forward = region.is_forward(), backward = region.is_backward();
    if (region.block == Block::layer && forward) lives[r].opens = stride + plan.layout.region_kept[r];
    if (region.block == Block::embed && forward) lives[r].opens = stride;
    if (region.block == Block::head && backward) lives[r].frees = stride;
    if (region.block == Block::layer && backward) {
      const Region& twin = g.layer_forward(region.variant);
      lives[r].frees = stride + plan.layout.region_kept[g.index_of(twin)];
    }
  }
  return lives;
}

std::vector<RegionRun> pass_runs(const Plan& plan) {
  const std::vector<RegionLife> lives = region_lives(plan);
  std::vector<RegionRun> runs;
  std::size_t kept = 0;
  for (const PassName pass : {PassName::micro_batch, PassName::optimizer_step})
    for (const Stop& stop : stops(plan.schedule, pass)) {
      if (stop.item->does != ScheduleItem::Does::run) continue;
      kept += lives[stop.region].opens;
      runs.push_back({stop.region, stop.layer, kept});
      kept -= lives[stop.region].frees;
    }
  return runs;
}

Live live_bytes(const Plan& plan) {
  const Graph& g = plan.graph;
  const std::vector<RegionLife> lives = region_lives(plan);
  std::size_t all = 0;
  for (const int variant : g.variants) all += lives[g.index_of(g.layer_forward(variant))].opens;
  all += stream_stride(plan);
  Live live{plan.layout.bytes - all - plan.layout.transient_bytes, 0};
  for (const RegionRun& run : pass_runs(plan)) {
    const std::vector<std::size_t>& alive = plan.layout.alive[run.region];
    live.peak = std::max(live.peak, live.fixed + run.kept + (alive.empty() ? 0 : std::ranges::max(alive)));
  }
  return live;
}

}  // namespace llmc::plan
