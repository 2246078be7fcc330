// Goes through a schedule: its items in order with loops unrolled, and what follows from their order.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "compiler/plan/schedule.h"

namespace llmc::plan {

/// Arguments of a pass.
struct Moment {
  bool first = true, last = true;
};

/// One item at one layer.
struct Stop {
  const ScheduleItem* item = nullptr;
  PassName pass = PassName::forward;  // whose item it is
  std::int64_t layer = 0;             // of a layer's region, a send's included; 0 where there is none
  std::size_t region = 0;             // run, send: index into Graph::regions

  /// How often it runs one after the other.
  std::int64_t times() const { return item->chunks ? item->chunks : 1; }
  /// Which of an event's slots a layer has.
  std::int64_t slot() const { return layer % kLayerSlots; }
};

/// Items of `pass` that run, wait, send or join, in order; a region of loss chunks is there once. Lives as long as the
/// schedule.
std::vector<Stop> stops(const Schedule& schedule, PassName pass, Moment moment = {});

/// How often training runs a region.
struct Runs {
  std::int64_t times = 0;  // a micro-batch, or a step; 0: no step runs it
  bool per_step = false;
};

/// By index into Graph::regions, which are `regions`.
std::vector<Runs> runs_of(const Schedule& schedule, std::size_t regions);

/// Regions of collectives: indices into Graph::regions.
std::set<std::size_t> sent_regions(const Schedule& schedule);

/// Indices into Graph::regions in the order of the time line: passes that branch from the forward pass follow it,
/// collectives follow the pass that sends them.
std::vector<std::size_t> region_order(const Schedule& schedule);

/// In which passes something runs between a region's collectives and the wait for them.
struct Overlap {
  bool forward = false, backward = false;
  bool any() const { return forward || backward; }
};
Overlap overlap_of(const Schedule& schedule, std::size_t region);

}  // namespace llmc::plan
