// Prints the stable text form of a schedule.
#include <fmt/format.h>

#include "compiler/plan/schedule.h"

namespace llmc::plan {

namespace {

using Does = ScheduleItem::Does;

class Text {
 public:
  Text(const Schedule& schedule, const graph::Graph& graph) : schedule_(schedule), g_(graph) {}

  std::vector<std::string> lines() {
    for (std::size_t pass = 0; pass < kPasses; ++pass) {
      const auto name = static_cast<PassName>(pass);
      if (schedule_.pass(name).empty()) continue;
      lines_.push_back(fmt::format("{}:", name_of(name)));
      items(schedule_.pass(name), 1);
    }
    return std::move(lines_);
  }

 private:
  void items(const std::vector<ScheduleItem>& list, int depth) {
    for (const ScheduleItem& item : list) {
      lines_.push_back(std::string(static_cast<std::size_t>(2 * depth), ' ') + condition(item) + action(item, depth));
      items(item.body, depth + 1);
    }
  }

  static std::string condition(const ScheduleItem& item) {
    std::string text;
    switch (item.when) {
      case When::always:
      case When::never: break;
      case When::first: text = item.does == Does::forward ? "" : "first: "; break;
      case When::last: text = "last: "; break;
      case When::gathering: text = "gathering: "; break;
    }
    if (item.otherwise) return text + "other layers: ";
    if (item.layers.is_all()) return text;
    return text + fmt::format("layers {} to count - {}: ", item.layers.from, item.layers.before_end + 1);
  }

  std::string regions(const ScheduleItem& item) const {
    std::string text;
    for (const std::size_t region : item.regions) text += (text.empty() ? "" : " | ") + g_.regions[region].name;
    return text;
  }

  std::string action(const ScheduleItem& item, int depth) const {
    const bool looped = depth > 1;
    switch (item.does) {
      case Does::run:
        return (item.chunks ? fmt::format("{} chunks: ", item.chunks) : "") +
               (item.matrix != graph::kNoMatrix ? "on its owner: " : "") + "run " + regions(item);
      case Does::layers_up: return "layers up:";
      case Does::layers_down: return "layers down:";
      case Does::forward: return item.when == When::first ? "forward, gathering if first" : "forward";
      case Does::send: return "send " + regions(item) + of_layer(item, looped) + mark(item);
      case Does::wait: return "wait for " + event(item.event);
      case Does::join: return "join";
    }
    return "";
  }

  std::string of_layer(const ScheduleItem& item, bool looped) const {
    if (g_.regions[item.regions[0]].block != graph::Block::layer) return "";
    if (!looped) return fmt::format(" of layer {}", item.layer);
    return item.layer ? fmt::format(" of layer {:+}", item.layer) : "";
  }

  std::string mark(const ScheduleItem& item) const {
    const int event_number = schedule_.event_after(item.regions[0]);
    return event_number == kNoEvent ? "" : ", then mark " + event(event_number);
  }

  const std::string& event(int number) const { return schedule_.events[static_cast<std::size_t>(number)].name; }

  const Schedule& schedule_;
  const graph::Graph& g_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> text_lines(const Schedule& schedule, const graph::Graph& graph) {
  return Text(schedule, graph).lines();
}

}  // namespace llmc::plan
