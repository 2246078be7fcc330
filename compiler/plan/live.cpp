#include "compiler/plan/live.h"

#include <algorithm>

namespace llmc::plan {

using namespace graph;

namespace {

std::size_t stream_stride(const Plan& plan) { return plan.layout.fixed.at(plan.graph.stream.below).layer_stride; }

const Region* find(const Graph& g, Part part, Block block, int variant) {
  for (const Region& region : g.regions)
    if (region.part == part && region.block == block &&
        (block != Block::layer || region.variant == kAllVariants || region.variant == variant))
      return &region;
  return nullptr;
}

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
      const Region& twin = *find(g, Part::forward, Block::layer, region.variant);
      lives[r].frees = stride + plan.layout.region_kept[static_cast<std::size_t>(&twin - g.regions.data())];
    }
  }
  return lives;
}

Live live_bytes(const Plan& plan) {
  const Graph& g = plan.graph;
  const std::vector<RegionLife> lives = region_lives(plan);
  std::size_t all = 0;
  for (const int variant : g.variants)
    all += lives[static_cast<std::size_t>(find(g, Part::forward, Block::layer, variant) - g.regions.data())].opens;
  all += stream_stride(plan);
  Live live{plan.layout.bytes - all - plan.layout.transient_bytes, 0};
  const auto most = [&](const Region& region) {
    const auto r = static_cast<std::size_t>(&region - g.regions.data());
    return plan.layout.alive[r].empty() ? 0 : std::ranges::max(plan.layout.alive[r]);
  };
  std::size_t kept = 0;
  const auto run = [&](const Region& region) {
    const RegionLife& life = lives[static_cast<std::size_t>(&region - g.regions.data())];
    kept += life.opens;
    live.peak = std::max(live.peak, live.fixed + kept + most(region));
    kept -= life.frees;
  };
  run(*find(g, Part::forward, Block::embed, 0));
  for (const int variant : g.variants) run(*find(g, Part::forward, Block::layer, variant));
  run(*find(g, Part::forward, Block::head, 0));
  for (const Region& region : g.regions)
    if (region.part == Part::loss) run(region);
  for (const Region& region : g.regions) {
    if (region.part != Part::backward) continue;
    if (region.block != Block::layer)
      run(region);
    else if (&region == find(g, Part::backward, Block::layer, g.variants.back()))
      for (std::size_t layer = g.variants.size(); layer-- > 0;)
        run(*find(g, Part::backward, Block::layer, g.variants[layer]));
  }
  for (const Region& region : g.regions)
    if (region.part == Part::optimizer) run(region);
  return live;
}

}  // namespace llmc::plan
