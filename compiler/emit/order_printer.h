// Prints the passes of a schedule: the calls of region functions in their order, and the events they wait for.
#pragma once

#include <string>
#include <vector>

#include "compiler/emit/printer.h"
#include "compiler/plan/plan.h"

namespace llmc::emit {

/// Returns the arguments of a region's function; `layer` is the argument of a layer's.
std::string region_arguments(const plan::Plan& plan, std::size_t region, const std::string& layer = "layer");
/// Returns the parameters of a region's function.
std::string region_parameters(const plan::Plan& plan, std::size_t region);

class OrderPrinter {
 public:
  /// `plan` and `out` must outlive the printer.
  OrderPrinter(const plan::Plan& plan, SourceWriter& out) : plan_(plan), schedule_(plan.schedule), out_(out) {}

  /// Prints the constants of the schedule's events.
  void events();
  /// Returns the event's expression: "kLayerGathered + layer % 2".
  std::string event(int number) const;

  /// Prints void forward(Step&), which begins all passes.
  void forward();
  /// Prints gather_weights(), micro_batch(), optimizer_step(), evaluate() and next_logits() of Program.
  void passes();

 private:
  using Items = std::vector<plan::ScheduleItem>;

  void function(const std::string& head, plan::PassName pass);
  void gather_weights();
  std::string gather_argument(const std::string& when) const;
  /// Returns `first` if the forward pass has ops that only the first pass with the same weights runs.
  std::string first_argument(const std::string& first) const;
  void items(const Items& list);
  void unconditional(const Items& list, std::size_t begin, std::size_t end);
  void item(const plan::ScheduleItem& item);
  void run(const plan::ScheduleItem& item);
  void loop(const plan::ScheduleItem& item);
  void send(const plan::ScheduleItem& item);
  std::string layer_of(const plan::ScheduleItem& item) const;
  std::string range_text(const plan::LayerRange& layers) const;

  const plan::Plan& plan_;
  const plan::Schedule& schedule_;
  SourceWriter& out_;
  bool looped_ = false;  // inside a loop over layers
};

}  // namespace llmc::emit
