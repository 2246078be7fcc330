// Walks a schedule: its items in order with loops unrolled, and the facts that follow from their order.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "compiler/plan/schedule.h"

namespace llmc::plan {

/// Position of a micro-batch in its step, the argument of a pass: whether it is the first, and the last.
struct Moment {
  bool first = true, last = true;
};

/// One item of a schedule, at one layer.
struct Stop {
  const ScheduleItem* item = nullptr;
  PassName pass = PassName::forward;  // the pass of the item
  std::int64_t layer = 0;             // of a layer's region, including sends; else 0
  std::size_t region = 0;             // run, send: index into Graph::regions

  /// Number of times that the item runs in sequence: the loss chunks of a chunked region, else 1.
  std::int64_t times() const { return item->chunks ? item->chunks : 1; }
  /// Returns a layer's slot of an event.
  std::int64_t slot() const { return layer % kLayerSlots; }
};

/// Lists the items of `pass` that run, wait, send or join, in order; a region of loss chunks is listed once. Valid as
/// long as the schedule.
std::vector<Stop> stops(const Schedule& schedule, PassName pass, Moment moment = {});

/// Number of runs of a region in training.
struct Runs {
  std::int64_t times = 0;  // per micro-batch, or per step; 0: no step runs it
  bool per_step = false;
};

/// Returns the runs of each region, by index into Graph::regions. `regions`: the number of regions of the graph.
std::vector<Runs> runs_of(const Schedule& schedule, std::size_t regions);

/// Returns the regions of collectives, as indices into Graph::regions.
std::set<std::size_t> sent_regions(const Schedule& schedule);

/// Returns indices into Graph::regions in the order of the timeline: passes that branch from the forward pass follow
/// it, and collectives follow the pass that sends them.
std::vector<std::size_t> region_order(const Schedule& schedule);

/// Passes in which something runs between a region's collectives and the wait for them.
struct Overlap {
  bool forward = false, backward = false, optimizer = false;
  bool any() const { return forward || backward || optimizer; }
};
Overlap overlap_of(const Schedule& schedule, std::size_t region);

}  // namespace llmc::plan
