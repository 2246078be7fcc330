#include "compiler/plan/schedule_walk.h"

#include <algorithm>
#include <utility>

namespace llmc::plan {

namespace {

using Does = ScheduleItem::Does;

class Walk {
 public:
  Walk(const Schedule& schedule, Moment moment) : schedule_(schedule), moment_(moment) {}

  void pass(PassName name, bool gathering) {
    const PassName before = std::exchange(pass_, name);
    const bool gathered = std::exchange(gathering_, gathering);
    for (const ScheduleItem& item : schedule_.pass(name)) visit(item, 0, false);
    pass_ = before;
    gathering_ = gathered;
  }

  std::vector<Stop> stops;

 private:
  bool holds(When when) const {
    switch (when) {
      case When::always: return true;
      case When::never: return false;
      case When::first: return moment_.first;
      case When::last: return moment_.last;
      case When::gathering: return gathering_;
    }
    return false;
  }

  void visit(const ScheduleItem& item, std::int64_t layer, bool looped) {
    const std::int64_t layers = schedule_.layers();
    if (item.does == Does::forward) return pass(PassName::forward, holds(item.when));
    if (!holds(item.when)) return;
    switch (item.does) {
      case Does::layers_up:
        for (std::int64_t l = 0; l < layers; ++l) body(item, l);
        return;
      case Does::layers_down:
        for (std::int64_t l = layers; l-- > 0;) body(item, l);
        return;
      case Does::run: stops.push_back({&item, pass_, layer, schedule_.region(item, layer)}); return;
      case Does::send:
        stops.push_back({&item, pass_, looped ? layer + item.layer : item.layer, item.regions[0]});
        return;
      default: stops.push_back({&item, pass_, layer, 0}); return;
    }
  }

  void body(const ScheduleItem& loop, std::int64_t layer) {
    bool covered = false;  // by the item before
    for (const ScheduleItem& item : loop.body) {
      covered = item.otherwise ? !covered : item.layers.covers(layer, schedule_.layers());
      if (covered) visit(item, layer, true);
    }
  }

  const Schedule& schedule_;
  const Moment moment_;
  bool gathering_ = false;
  PassName pass_ = PassName::forward;
};

/// Visits each item and those of its body, in order.
template <class Visit>
void for_each_item(const std::vector<ScheduleItem>& items, const Visit& visit) {
  for (const ScheduleItem& item : items) {
    visit(item);
    for_each_item(item.body, visit);
  }
}

/// Whether any item runs between the send at `at` and the wait for it.
bool overlaps(const Schedule& schedule, const std::vector<Stop>& list, std::size_t at) {
  const int event = schedule.event_after(list[at].region);
  for (std::size_t i = at + 1; i < list.size(); ++i) {
    const ScheduleItem& item = *list[i].item;
    if (item.does == Does::run) return true;
    if (item.does == Does::join) return false;
    if (item.does != Does::wait || item.event != event) continue;
    if (schedule.events[static_cast<std::size_t>(event)].slots == 1 || list[i].slot() == list[at].slot()) return false;
  }
  return false;
}

}  // namespace

std::vector<Stop> stops(const Schedule& schedule, PassName pass, Moment moment) {
  Walk walk(schedule, moment);
  walk.pass(pass, false);
  return std::move(walk.stops);
}

std::vector<Runs> runs_of(const Schedule& schedule, std::size_t regions) {
  std::vector<Runs> runs(regions);
  const auto count = [&](PassName pass) {
    for (const Stop& stop : stops(schedule, pass)) {
      if (stop.item->does != Does::run && stop.item->does != Does::send) continue;
      runs[stop.region].times += stop.times();
      runs[stop.region].per_step = pass == PassName::optimizer_step || stop.item->when != When::always;
    }
  };
  count(PassName::micro_batch);
  count(PassName::optimizer_step);
  return runs;
}

std::set<std::size_t> sent_regions(const Schedule& schedule) {
  std::set<std::size_t> regions;
  for (const PassName pass : {PassName::forward, PassName::micro_batch, PassName::optimizer_step})
    for_each_item(schedule.pass(pass), [&](const ScheduleItem& item) {
      if (item.does == Does::send) regions.insert(item.regions[0]);
    });
  return regions;
}

std::vector<std::size_t> region_order(const Schedule& schedule) {
  std::vector<std::size_t> order;
  const auto add = [&](PassName pass, Does does) {
    for_each_item(schedule.pass(pass), [&](const ScheduleItem& item) {
      if (item.does != does) return;
      for (const std::size_t region : item.regions)
        if (std::ranges::find(order, region) == order.end()) order.push_back(region);
    });
  };
  for (std::size_t pass = 0; pass < kPasses; ++pass) {
    const auto name = static_cast<PassName>(pass);
    add(name, Does::run);
    if (name == PassName::micro_batch || name == PassName::optimizer_step) add(name, Does::send);
    if (name == PassName::gather_weights) add(PassName::forward, Does::send);
  }
  return order;
}

Overlap overlap_of(const Schedule& schedule, std::size_t region) {
  Overlap overlap;
  for (const PassName pass : {PassName::micro_batch, PassName::optimizer_step}) {
    const std::vector<Stop> list = stops(schedule, pass);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].item->does != Does::send || list[i].region != region || !overlaps(schedule, list, i)) continue;
      (pass == PassName::optimizer_step    ? overlap.optimizer
       : list[i].pass == PassName::forward ? overlap.forward
                                           : overlap.backward) = true;
    }
  }
  return overlap;
}

}  // namespace llmc::plan
