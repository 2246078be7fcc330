#include "compiler/plan/live.h"

#include <algorithm>

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
    const bool forward = region.part == Part::forward, backward = region.part == Part::backward;
    if (region.block == Block::layer && forward) lives[r].opens = stride + plan.layout.region_kept[r];
    if (region.block == Block::embed && forward) lives[r].opens = stride;
    if (region.block == Block::head && backward) lives[r].frees = stride;
    if (region.block == Block::layer && backward) {
      const Region& twin = *g.find(Part::forward, Block::layer, region.variant);
      lives[r].frees = stride + plan.layout.region_kept[g.index_of(twin)];
    }
  }
  return lives;
}

std::vector<RegionRun> pass_runs(const Plan& plan) {
  const Graph& g = plan.graph;
  const std::vector<RegionLife> lives = region_lives(plan);
  std::vector<RegionRun> runs;
  std::size_t kept = 0;
  const auto run = [&](const Region& region, std::size_t layer = 0) {
    const auto r = g.index_of(region);
    kept += lives[r].opens;
    runs.push_back({r, static_cast<std::int64_t>(layer), kept});
    kept -= lives[r].frees;
  };
  run(*g.find(Part::forward, Block::embed, 0));
  for (std::size_t layer = 0; layer < g.variants.size(); ++layer)
    run(*g.find(Part::forward, Block::layer, g.variants[layer]), layer);
  run(*g.find(Part::forward, Block::head, 0));
  for (const Region& region : g.regions)
    if (region.part == Part::loss) run(region);
  for (const Region& region : g.regions) {
    if (region.part != Part::backward) continue;
    if (region.block != Block::layer)
      run(region);
    else if (&region == g.find(Part::backward, Block::layer, g.variants.back()))
      for (std::size_t layer = g.variants.size(); layer-- > 0;)
        run(*g.find(Part::backward, Block::layer, g.variants[layer]), layer);
  }
  for (const Region& region : g.regions)
    if (region.part == Part::optimizer) run(region);
  return runs;
}

Live live_bytes(const Plan& plan) {
  const Graph& g = plan.graph;
  const std::vector<RegionLife> lives = region_lives(plan);
  std::size_t all = 0;
  for (const int variant : g.variants) all += lives[g.index_of(*g.find(Part::forward, Block::layer, variant))].opens;
  all += stream_stride(plan);
  Live live{plan.layout.bytes - all - plan.layout.transient_bytes, 0};
  for (const RegionRun& run : pass_runs(plan)) {
    const std::vector<std::size_t>& alive = plan.layout.alive[run.region];
    live.peak = std::max(live.peak, live.fixed + run.kept + (alive.empty() ? 0 : std::ranges::max(alive)));
  }
  return live;
}

}  // namespace llmc::plan
