// Prints the passes of a schedule: which region functions they call, in which order, and what they wait for.
#pragma once

#include <string>
#include <vector>

#include "compiler/emit/printer.h"
#include "compiler/plan/plan.h"

namespace llmc::emit {

/// Arguments of a region's function; of a layer's, `layer` is the argument.
std::string region_arguments(const plan::Plan& plan, std::size_t region, const std::string& layer = "layer");
/// Parameters of a region's function.
std::string region_parameters(const plan::Plan& plan, std::size_t region);

class OrderPrinter {
 public:
  /// Both outlive it.
  OrderPrinter(const plan::Plan& plan, Source& out) : plan_(plan), schedule_(plan.schedule), out_(out) {}

  /// Constants of the schedule's events.
  void events();
  /// "kLayerGathered + layer % 2".
  std::string event(int number) const;

  /// void forward(Step&), which all passes begin with.
  void forward();
  /// gather_weights(), micro_batch(), optimizer_step(), evaluate() and next_logits() of Program.
  void passes();

 private:
  using Items = std::vector<plan::ScheduleItem>;

  void function(const std::string& head, plan::PassName pass);
  void gather_weights();
  std::string gather_argument(const std::string& when) const;
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
  Source& out_;
  bool looped_ = false;  // over layers
};

}  // namespace llmc::emit
