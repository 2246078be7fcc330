#include "compiler/plan/schedule.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace llmc::plan {

using namespace graph;

namespace {

using Does = ScheduleItem::Does;

class Builder {
 public:
  Builder(const Graph& graph, Shard shard)
      : g_(graph), weights_(is_sharded(Use::masters, shard)), gradients_(is_sharded(Use::gradients, shard)) {}

  Schedule build() {
    schedule_.variants = g_.variants;
    if (std::ranges::any_of(g_.regions, [](const Region& r) { return r.part == Part::gather; }))
      schedule_.gathers = weights_ ? When::always : When::gathering;
    events();
    pass(PassName::forward, forward());
    pass(PassName::evaluate, joined({forward_pass(When::never, When::first)}, runs(Part::evaluate)));
    pass(PassName::next_logits, joined({forward_pass(When::never, When::always)}, runs(Part::sample)));
    pass(PassName::audit, audit());
    pass(PassName::micro_batch, micro_batch());
    pass(PassName::optimizer_step, optimizer_step());
    pass(PassName::gather_weights, gather_weights());
    pass(PassName::initialise, runs(Part::initialise));
    pass(PassName::refresh_copies, runs(Part::refresh));
    pass(PassName::join_masters, runs(Part::join));
    return std::move(schedule_);
  }

 private:
  using Items = std::vector<ScheduleItem>;

  void pass(PassName name, Items items) { schedule_.passes[static_cast<std::size_t>(name)] = std::move(items); }

  static Items joined(Items items, Items more) {
    std::ranges::move(more, std::back_inserter(items));
    return items;
  }

  std::optional<std::size_t> find(Part part, Block block) const {
    const Region* const found = g_.find(part, block);
    return found ? std::optional(g_.index_of(*found)) : std::nullopt;
  }

  /// Adds events for gathered weights, and for reduced gradients if the next block writes into the same buffer.
  void events() {
    int number = 0;
    for (const Part part : {Part::gather, Part::reduce})
      for (const Block block : {Block::none, Block::embed, Block::head, Block::layer}) {
        const auto region = find(part, block);
        const bool reused = gradients_ && (block == Block::head || block == Block::layer);
        if (!region || (part == Part::reduce && !reused)) continue;
        const std::string what = block == Block::none ? "vectors" : name_of(block);
        const std::int64_t slots = block == Block::layer ? kLayerSlots : 1;
        schedule_.events.push_back({what + (part == Part::gather ? "_gathered" : "_reduced"), *region, number, slots});
        number += static_cast<int>(slots);
      }
  }

  /// Returns no item if there is no such region.
  Items send(Part part, Block block, When when, std::int64_t layer = 0, LayerRange layers = {}) const {
    const auto region = find(part, block);
    if (!region) return {};
    return {{.does = Does::send, .when = when, .layers = layers, .regions = {*region}, .layer = layer}};
  }

  Items wait(Part part, Block block, When when, LayerRange layers = {}) const {
    const auto region = find(part, block);
    if (!region) return {};
    return {{.does = Does::wait, .when = when, .layers = layers, .event = schedule_.event_after(*region)}};
  }

  static ScheduleItem forward_pass(When gathers, When once) {
    return {.does = Does::forward, .when = gathers, .once = once};
  }

  ScheduleItem run(std::size_t r) const {
    const Region& region = g_.regions[r];
    ScheduleItem item{.regions = {r}, .matrix = region.matrix};
    if (region.block == Block::layer && (region.variant != kAllVariants || region.kind)) {
      item.regions.clear();
      for (int variant = 0; variant < g_.variant_count(); ++variant)
        item.regions.push_back(g_.index_of(*g_.find(region.part, Block::layer, variant)));
    }
    if (region.loop == Loop::loss_chunks) item.chunks = g_.tokens() / g_.chunk_rows;
    return item;
  }

  /// Whether the layers of the first variant run another region of this part.
  bool is_later_variant(const Region& region) const {
    return region.block == Block::layer && !g_.serves(region, g_.variants.front());
  }

  /// Returns every region of `part` in the graph's order; all variants of a layer are one loop.
  Items runs(Part part) const {
    Items items;
    for (std::size_t r = 0; r < g_.regions.size(); ++r) {
      const Region& region = g_.regions[r];
      if (region.part != part || is_later_variant(region)) continue;
      const bool backward = part == Part::backward;
      Items body = backward ? joined(before_backward(region.block), {run(r)}) : Items{run(r)};
      // A block's gradients are complete in the last micro-batch of a step; sharded gradients are reduced in each.
      if (backward) body = joined(std::move(body), send(Part::reduce, region.block, reduces()));
      const bool up = region.loop == Loop::layers_up, down = region.loop == Loop::layers_down;
      if (up || down)
        items.push_back({.does = up ? Does::layers_up : Does::layers_down, .body = std::move(body)});
      else
        items = joined(std::move(items), std::move(body));
    }
    return items;
  }

  When reduces() const { return gradients_ ? When::always : When::last; }

  /// Before a block's backward pass writes gradients into a buffer, the previous block's gradients there must be
  /// reduced. A layer's weights are gathered a second time, one layer ahead; those of the last two layers are still in
  /// their buffers.
  Items before_backward(Block block) const {
    if (block == Block::embed && gradients_) return wait(Part::reduce, Block::head, When::always);
    if (block != Block::layer || !gradients_) return {};
    const LayerRange inner{0, kLayerSlots};
    Items items;
    if (weights_) {
      items = send(Part::gather, Block::layer, When::always, -1, {1, 1});
      items = joined(std::move(items), wait(Part::gather, Block::layer, When::always, inner));
    }
    return joined(std::move(items), wait(Part::reduce, Block::layer, When::always, inner));
  }

  /// Gathers each block's weights while the block before it runs. Layers alternate between two buffers, so a layer's
  /// gather starts when the layer two before it is done.
  Items forward() const {
    const When when = schedule_.gathers;
    const auto first = [&](Part part) { return *find(part, Block::embed); };
    Items items;
    for (const Block block : {Block::none, Block::embed, Block::layer})
      items = joined(std::move(items), send(Part::gather, block, when));
    for (const Block block : {Block::none, Block::embed})
      items = joined(std::move(items), wait(Part::gather, block, when));
    items.push_back(run(first(Part::forward)));

    Items body = send(Part::gather, Block::layer, when, 1, {0, 1});
    for (ScheduleItem& head : send(Part::gather, Block::head, when)) {
      head.otherwise = true;
      body.push_back(std::move(head));
    }
    body = joined(std::move(body), wait(Part::gather, Block::layer, when));
    body.push_back(run(*find(Part::forward, Block::layer)));
    items.push_back({.does = Does::layers_up, .body = std::move(body)});

    items = joined(std::move(items), wait(Part::gather, Block::head, when));
    items.push_back(run(*find(Part::forward, Block::head)));
    return items;
  }

  Items micro_batch() const {
    Items items = joined({forward_pass(When::first, When::first)}, runs(Part::loss));
    items = joined(std::move(items), runs(Part::backward));
    items = joined(std::move(items), send(Part::reduce, Block::none, reduces()));
    items.push_back({.does = Does::join, .when = reduces()});
    return items;
  }

  /// Orthogonalises the matrices of each layer. Ranks that have whole gradients hold those of all layers at once, so
  /// that no owner waits for another's layer; the others have one layer's.
  Items optimizer_step() const {
    Items items = runs(Part::prepare);
    Items matrices;  // of one layer
    for (ScheduleItem& loop : runs(Part::orthogonalise)) matrices = joined(std::move(matrices), std::move(loop.body));
    if (matrices.empty()) return runs(Part::optimizer);
    Items to = send(Part::to_owners, Block::layer, When::always);
    if (!to.empty() && gradients_)
      matrices = joined(joined(std::move(to), {{.does = Does::join}}), std::move(matrices));
    else if (!to.empty()) {
      items.push_back({.does = Does::layers_up, .body = std::move(to)});
      items.push_back({.does = Does::join});
    }
    const Items from = send(Part::from_owners, Block::layer, When::always);
    matrices = joined(std::move(matrices), from);
    items.push_back({.does = Does::layers_up, .body = std::move(matrices)});
    items = joined(std::move(items), send(Part::from_owners, Block::none, When::always));
    if (!from.empty()) items.push_back({.does = Does::join});
    return joined(std::move(items), runs(Part::optimizer));
  }

  /// An audit with its own forward pass begins with the embedding.
  Items audit() const {
    Items items = runs(Part::audit);
    if (items.empty() || find(Part::audit, Block::embed)) return items;
    return joined({forward_pass(When::never, When::always)}, std::move(items));
  }

  /// Empty if every pass gathers weights, or if every rank has them.
  Items gather_weights() const {
    if (schedule_.gathers != When::gathering) return {};
    Items items;
    for (const Block block : kBlocksInOrder) {
      Items one = send(Part::gather, block, When::always);
      if (block == Block::layer && !one.empty()) one = {{.does = Does::layers_up, .body = std::move(one)}};
      items = joined(std::move(items), std::move(one));
    }
    items.push_back({.does = Does::join});
    return items;
  }

  const Graph& g_;
  const bool weights_, gradients_;  // whether they are sharded
  Schedule schedule_;
};

}  // namespace

const char* name_of(PassName pass) {
  switch (pass) {
    case PassName::forward: return "forward";
    case PassName::evaluate: return "evaluate";
    case PassName::next_logits: return "next_logits";
    case PassName::audit: return "audit";
    case PassName::micro_batch: return "micro_batch";
    case PassName::optimizer_step: return "optimizer_step";
    case PassName::gather_weights: return "gather_weights";
    case PassName::initialise: return "initialise";
    case PassName::refresh_copies: return "refresh_copies";
    case PassName::join_masters: return "join_masters";
  }
  return "";
}

int Schedule::event_after(std::size_t region) const {
  const auto found = std::ranges::find(events, region, &ScheduleEvent::after);
  return found == events.end() ? kNoEvent : static_cast<int>(found - events.begin());
}

Schedule make_schedule(const Graph& graph, Shard shard) { return Builder(graph, shard).build(); }

}  // namespace llmc::plan
