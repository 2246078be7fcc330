// Describes the order of a step as data: passes, each a list of items. The printer prints it; time, bytes and counts
// are computed by walking it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "program/buffers.h"

namespace llmc::plan {

/// Functions of the trainer's step (program/program.h), and the forward pass that begins several of them.
enum class PassName {
  forward,
  evaluate,
  next_logits,
  audit,
  micro_batch,
  optimizer_step,
  gather_weights,
  initialise,
  refresh_copies,
  join_masters,
};
constexpr std::size_t kPasses = static_cast<std::size_t>(PassName::join_masters) + 1;
const char* name_of(PassName pass);

/// Condition of an item.
enum class When {
  always,
  never,
  first,      // in the first micro-batch of a step
  last,       // in the last micro-batch of a step
  gathering,  // if the pass gathers weights
};

/// Layers [from, count - before_end) of a loop over layers.
struct LayerRange {
  std::int64_t from = 0, before_end = 0;

  bool is_all() const { return from == 0 && before_end == 0; }
  bool covers(std::int64_t layer, std::int64_t layers) const { return layer >= from && layer + before_end < layers; }
  bool operator==(const LayerRange&) const = default;
};

/// Number of gather buffers, reduce buffers and events that layers alternate between.
constexpr std::int64_t kLayerSlots = 2;

/// Completion of a region of collectives.
struct ScheduleEvent {
  std::string name;        // "layer_gathered"
  std::size_t after = 0;   // index into Graph::regions
  int number = 0;          // of the first slot
  std::int64_t slots = 1;  // kLayerSlots if layers alternate
};
constexpr int kNoEvent = -1;

struct ScheduleItem {
  enum class Does {
    run,          // a region
    layers_up,    // `body` for each layer
    layers_down,  // `body` for each layer, the last one first
    forward,      // pass `forward`, which gathers weights if `when` holds
    send,         // a region of collectives, on a separate stream, after everything issued so far
    wait,         // for an event
    join,         // for all sends
  };
  Does does = Does::run;
  When when = When::always;
  When once = When::always;               // forward: whether the ops run that serve all passes with the same weights
  LayerRange layers = {};                 // in a loop over layers
  bool otherwise = false;                 // in a loop over layers: for the layers that the items before leave out
  std::vector<std::size_t> regions = {};  // run, send: index into Graph::regions; by variant if layers differ
  int matrix = graph::kNoMatrix;          // run: on the rank alone that owns this matrix of the layer
  std::int64_t layer = 0;                 // send, of a layer's region: relative to the loop's layer, if any
  std::int64_t chunks = 0;                // run: number of loss chunks, in sequence; 0: the region has none
  int event = kNoEvent;                   // wait: index into Schedule::events, at the loop's layer
  std::vector<ScheduleItem> body = {};
};

struct Schedule {
  std::vector<int> variants;  // of each layer
  std::vector<ScheduleEvent> events;
  std::vector<std::vector<ScheduleItem>> passes = std::vector<std::vector<ScheduleItem>>(kPasses);  // by PassName
  When gathers = When::never;  // whether the forward pass gathers weights: always, on request, or never

  std::int64_t layers() const { return static_cast<std::int64_t>(variants.size()); }
  const std::vector<ScheduleItem>& pass(PassName name) const { return passes[static_cast<std::size_t>(name)]; }
  /// Returns the region that `item` runs or sends for `layer`.
  std::size_t region(const ScheduleItem& item, std::int64_t layer) const {
    return item.regions.size() == 1 ? item.regions[0]
                                    : item.regions[static_cast<std::size_t>(variants[static_cast<std::size_t>(layer)])];
  }
  /// Returns the event at the end of a region; kNoEvent if no item waits only for it.
  int event_after(std::size_t region) const;
};

/// Makes the schedule of a graph after all passes.
Schedule make_schedule(const graph::Graph& graph, Shard shard);

/// Returns the stable text form, one line per item: "  gathering: wait for vectors_gathered".
std::vector<std::string> text_lines(const Schedule& schedule, const graph::Graph& graph);

}  // namespace llmc::plan
