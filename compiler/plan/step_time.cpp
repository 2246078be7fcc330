#include "compiler/plan/step_time.h"

#include <algorithm>

#include "compiler/plan/price.h"

namespace llmc::plan {

using namespace graph;

namespace {

/// What only the first micro-batch of a step runs: it zeros what the others add to.
bool is_once(const Plan& plan, const Launch& launch) {
  return launch.call == ops::Call::zero && launch.per_step &&
         plan.graph.regions[launch.region_index].part != Part::optimizer;
}

/// Two clocks: what the device computes, and what its ranks' own stream sends. Follows emit/order_printer.cpp.
class Walk {
 public:
  explicit Walk(const Plan& plan)
      : plan_(plan), g_(plan.graph), shard_(plan.spec.parallel.shard), seconds_(region_seconds(plan)) {
    streams_ = plan.spec.target.kind == spec::TargetKind::cuda;
  }

  /// `spans`: where given, gets what runs and waits when.
  StepTime run(std::vector<Span>* spans = nullptr) {
    const std::int64_t passes = plan_.rank_micro_batches();
    spans_ = spans;
    micro_batch(true, passes == 1);
    if (passes > 2) {  // those between the first and the last are alike: one of them, so many times
      const Walk before = *this;
      ++pass_;
      micro_batch(false, false);
      const auto more = static_cast<double>(passes - 3);
      now_ += more * (now_ - before.now_);
      computed_ += more * (computed_ - before.computed_);
      sent_ = std::max(sent_, before.sent_ + (more + 1) * (sent_ - before.sent_));
    }
    if (passes > 1) {
      ++pass_;
      micro_batch(false, true);
    }
    for (const Region& region : g_.regions)
      if (region.part == Part::optimizer) compute(region, loops(region));
    for (const Launch& launch : plan_.launches)
      if (is_once(plan_, launch)) {
        const double zeros = static_cast<double>(launch.times) * price(plan_, launch).seconds;
        note(Span::Does::compute, launch.region_index, now_, now_ + zeros);
        now_ += zeros;
        computed_ += zeros;
      }
    return {now_, computed_, now_ - computed_};
  }

 private:
  double seconds(const Region& region) const { return seconds_[g_.index_of(region)]; }
  double loops(const Region& region) const {
    switch (region.loop) {
      case Loop::once: return 1;
      case Loop::loss_chunks: return static_cast<double>(g_.tokens() / g_.chunk_rows);
      default: return static_cast<double>(g_.layers_of(region));
    }
  }

  void note(Span::Does does, std::size_t region, double begin, double end) {
    if (spans_ && end > begin) spans_->push_back({does, region, layer_, pass_, begin, end});
  }

  void compute(const Region& region, double times = 1) {
    note(Span::Does::compute, g_.index_of(region), now_, now_ + times * seconds(region));
    now_ += times * seconds(region);
    computed_ += times * seconds(region);
  }

  /// A collective region begins once what it sends is there, and after what was sent before it. When it is done.
  double send(Part part, Block block) {
    const Region* region = g_.find(part, block);
    if (!region) return 0;
    double& clock = streams_ ? sent_ : now_;
    const double begin = std::max(clock, now_);
    clock = begin + seconds(*region);
    note(Span::Does::send, g_.index_of(*region), begin, clock);
    return clock;
  }
  void await(double done) {
    note(Span::Does::wait, 0, now_, done);
    now_ = std::max(now_, done);
  }

  void micro_batch(bool first, bool last) {
    forward(is_sharded(Use::masters, shard_) || (first && has(Part::gather)));
    for (const Region& region : g_.regions)
      if (region.part == Part::loss) compute(region, loops(region));
    backward(is_sharded(Use::gradients, shard_) || last);
  }
  bool has(Part part) const {
    return std::ranges::any_of(g_.regions, [part](const Region& region) { return region.part == part; });
  }

  void forward(bool gathers) {
    double ready = 0;
    if (gathers) {
      send(Part::gather, Block::none);
      const double embed = send(Part::gather, Block::embed);
      ready = send(Part::gather, Block::layer);
      await(embed);
    }
    compute(*g_.find(Part::forward, Block::embed));
    for (std::int64_t layer = 0; layer < g_.layers(); ++layer) {
      const double mine = ready;
      if (gathers) ready = send(Part::gather, layer + 1 < g_.layers() ? Block::layer : Block::head);
      await(mine);
      layer_ = layer;
      compute(*g_.find(Part::forward, Block::layer, g_.variants[static_cast<std::size_t>(layer)]));
      layer_ = 0;
    }
    await(ready);
    compute(*g_.find(Part::forward, Block::head));
  }

  void backward(bool reduces) {
    const bool gathers = is_sharded(Use::masters, shard_) && g_.find(Part::gather, Block::layer);
    for (const Region& region : g_.regions) {
      if (region.part != Part::backward || (region.block == Block::layer && region.variant > 0)) continue;
      if (region.block != Block::layer) {
        compute(region, loops(region));
        if (reduces) send(Part::reduce, region.block);
        continue;
      }
      double ready = 0, window[2] = {0, 0};  // when a layer's weights are there, and its window of gradients is free
      for (std::int64_t layer = g_.layers(); layer-- > 0;) {
        const double mine = ready;
        if (gathers && layer + 1 < g_.layers() && layer > 0) ready = send(Part::gather, Block::layer);
        if (gathers && layer + 2 < g_.layers()) await(mine);
        if (is_sharded(Use::gradients, shard_)) await(window[layer % 2]);
        layer_ = layer;
        compute(*g_.find(Part::backward, Block::layer, g_.variants[static_cast<std::size_t>(layer)]));
        layer_ = 0;
        if (reduces) window[layer % 2] = send(Part::reduce, Block::layer);
      }
    }
    if (!reduces) return;
    send(Part::reduce, Block::none);
    await(sent_);
  }

  const Plan& plan_;
  const Graph& g_;
  const Shard shard_;
  const std::vector<double> seconds_;
  bool streams_ = false;
  double now_ = 0, sent_ = 0, computed_ = 0;
  std::vector<Span>* spans_ = nullptr;
  int pass_ = 0;
  std::int64_t layer_ = 0;
};

}  // namespace

std::vector<double> region_seconds(const Plan& plan) {
  std::vector<double> seconds(plan.graph.regions.size(), 0);
  for (const Launch& launch : plan.launches)
    if (launch.times && !is_once(plan, launch)) seconds[launch.region_index] += price(plan, launch).seconds;
  return seconds;
}

StepTime step_time(const Plan& plan) { return Walk(plan).run(); }

std::vector<Span> step_spans(const Plan& plan) {
  std::vector<Span> spans;
  Walk(plan).run(&spans);
  return spans;
}

}  // namespace llmc::plan
