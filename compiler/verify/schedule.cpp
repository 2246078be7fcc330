#include "compiler/verify/schedule.h"

#include <fmt/format.h>

#include "compiler/ops/op.h"

namespace llmc::verify {

using namespace graph;

namespace {

class Walk {
 public:
  explicit Walk(const plan::Plan& plan) : g_(plan.graph) {}

  void part(Part part) {
    for (std::size_t r = 0; r < g_.regions.size(); ++r) {
      const Region& region = g_.regions[r];
      if (region.part != part || (region.block == Block::layer && region.variant > 0)) continue;
      switch (region.loop) {
        case Loop::once: ops(r, 0, 0); break;
        case Loop::loss_chunks:
          for (std::int64_t chunk = 0; chunk < g_.tokens() / g_.chunk_rows; ++chunk) ops(r, 0, chunk);
          break;
        case Loop::layers_up:
          for (std::int64_t layer = 0; layer < g_.layers(); ++layer) ops(of_layer(r, layer), layer, 0);
          break;
        case Loop::layers_down:
          for (std::int64_t layer = g_.layers(); layer-- > 0;) ops(of_layer(r, layer), layer, 0);
          break;
      }
    }
  }

  std::int64_t step = 0, micro = 0;
  std::vector<Launch> launches;

 private:
  /// The region of the layer's variant, where `r` is that of the first variant.
  std::size_t of_layer(std::size_t r, std::int64_t layer) const {
    return g_.index_of(*g_.find(g_.regions[r].part, Block::layer, g_.variants[static_cast<std::size_t>(layer)]));
  }

  void ops(std::size_t r, std::int64_t layer, std::int64_t chunk) {
    for (std::size_t i = 0; i < g_.regions[r].ops.size(); ++i)
      if (!ops::is_between_ranks(g_.regions[r].ops[i].kind))
        launches.push_back({r, i, layer, chunk, step, micro, micro == 0 && chunk == 0});
  }

  const Graph& g_;
};

}  // namespace

std::vector<Launch> launches_of(const plan::Plan& plan, std::int64_t steps) {
  Walk walk(plan);
  walk.part(Part::initialise);
  walk.part(Part::refresh);
  for (walk.step = 1; walk.step <= steps; ++walk.step) {
    for (walk.micro = 0; walk.micro < plan.micro_batches(); ++walk.micro)
      for (const Part part : {Part::forward, Part::loss, Part::backward}) walk.part(part);
    walk.micro = 0;
    walk.part(Part::optimizer);
  }
  return std::move(walk.launches);
}

std::string text_of(const plan::Plan& plan, const Launch& launch) {
  const Region& region = plan.graph.regions[launch.region];
  const bool passes = region.part == Part::forward || region.part == Part::loss || region.part == Part::backward;
  std::string text = launch.step ? fmt::format("step {}", launch.step) : "at start";
  if (passes && plan.micro_batches() > 1) text += fmt::format(", micro-batch {}", launch.micro + 1);
  if (region.block == Block::layer) text += fmt::format(", layer {}", launch.layer);
  if (region.loop == Loop::loss_chunks && plan.graph.tokens() > plan.graph.chunk_rows)
    text += fmt::format(", chunk {}", launch.chunk);
  return fmt::format("{}: op {} of {}", text, region.ops[launch.op].label(), region.name);
}

std::string what_runs(const plan::Plan& plan, const Launch& launch) {
  std::string text;
  for (const plan::Launch& l : plan.launches) {
    if (l.region_index != launch.region || l.op_index != launch.op) continue;
    text += (text.empty() ? "" : ", ") + fmt::format("{} {}", l.kind(), l.what);
    if (l.call == ops::Call::kernel || l.call == ops::Call::own_backward)
      text += " of templates/" + plan.kernels[l.kernel].source;
  }
  return text;
}

}  // namespace llmc::verify
