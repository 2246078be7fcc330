#include "compiler/emit/order_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/plan/schedule_walk.h"

namespace llmc::emit {

using namespace graph;
using plan::PassName;
using plan::ScheduleItem;
using plan::When;
using Does = ScheduleItem::Does;

namespace {

/// Whether the region's function asks whether a pass is the first of its step.
bool asks(const plan::Plan& plan, std::size_t r) {
  return std::ranges::any_of(plan.launches,
                             [r](const plan::Launch& l) { return l.region_index == r && (l.adds || l.once); });
}

}  // namespace

std::string region_arguments(const plan::Plan& plan, std::size_t r, const std::string& layer) {
  const Region& region = plan.graph.regions[r];
  std::string text = "s";
  if (asks(plan, r)) text += ", first";
  if (region.block == Block::layer) text += ", " + layer;
  if (region.loop == Loop::loss_chunks) text += ", chunk";
  return text;
}

std::string region_parameters(const plan::Plan& plan, std::size_t r) {
  const Region& region = plan.graph.regions[r];
  std::string text = "Step& s";
  if (asks(plan, r)) text += ", bool first";
  if (region.block == Block::layer) text += ", std::size_t layer";
  if (region.loop == Loop::loss_chunks) text += ", std::size_t chunk";
  return text;
}

void OrderPrinter::events() {
  for (const plan::ScheduleEvent& event : schedule_.events) {
    if (event.number == 0)
      out_.line("// Events on the ranks' stream that the passes wait for; layers alternate between two.");
    out_.line("constexpr int $constant$ = $number$;",
              {{"constant", constant_name(event.name)}, {"number", std::to_string(event.number)}});
  }
  if (!schedule_.events.empty()) out_.blank();
}

std::string OrderPrinter::event(int number) const {
  const plan::ScheduleEvent& event = schedule_.events[static_cast<std::size_t>(number)];
  return constant_name(event.name) + (event.slots > 1 ? fmt::format(" + layer % {}", event.slots) : "");
}

/// Groups neighbours with the same condition in its braces.
void OrderPrinter::items(const Items& list) {
  for (std::size_t begin = 0, end = 0; begin < list.size(); begin = end) {
    const bool gathering = list[begin].when == When::gathering;
    end = begin + 1;
    while (end < list.size() && (list[end].when == When::gathering) == gathering) ++end;
    if (gathering) out_.open("if (gather)");
    unconditional(list, begin, end);
    if (gathering) out_.close();
  }
}

void OrderPrinter::unconditional(const Items& list, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin, next = i; i < end; i = next) {
    const plan::LayerRange& layers = list[i].layers;
    if (!layers.is_all()) out_.open("if ($range$)", {{"range", range_text(layers)}});
    for (next = i; next < end && !list[next].otherwise && list[next].layers == layers; ++next) item(list[next]);
    if (next < end && list[next].otherwise) {
      out_.middle("} else {");
      item(list[next++]);
    }
    if (!layers.is_all()) out_.close();
  }
}

std::string OrderPrinter::range_text(const plan::LayerRange& layers) const {
  std::string text;
  if (layers.before_end) text = fmt::format("layer + {} < {}", layers.before_end, schedule_.layers());
  if (layers.from) text += fmt::format("{}layer > {}", text.empty() ? "" : " && ", layers.from - 1);
  return text;
}

void OrderPrinter::item(const ScheduleItem& item) {
  switch (item.does) {
    case Does::run: return run(item);
    case Does::layers_up:
    case Does::layers_down: return loop(item);
    case Does::forward:
      return out_.line("forward(s$gather$$first$);",
                       {{"gather", gather_argument(item.when == When::first ? ", first" : ", false")},
                        {"first", first_argument(item.once == When::first ? ", first" : ", true")}});
    case Does::send: return send(item);
    case Does::wait: return out_.line("s.ranks.wait($event$, s.stream);", {{"event", event(item.event)}});
    case Does::join:
      return out_.line("$when$s.ranks.join(s.stream);", {{"when", item.when == When::last ? "if (last) " : ""}});
  }
}

/// Calls the function of the layer's variant.
void OrderPrinter::run(const ScheduleItem& item) {
  const auto call = [&](std::size_t region) {
    out_.line("$owned$$name$($arguments$);",
              {{"owned", item.matrix == kNoMatrix ? "" : fmt::format("if (s.owns(layer, {})) ", item.matrix)},
               {"name", plan_.graph.regions[region].name},
               {"arguments", region_arguments(plan_, region)}});
  };
  if (item.chunks) out_.open("for (std::size_t chunk = 0; chunk < $n$; ++chunk)", {{"n", std::to_string(item.chunks)}});
  if (item.regions.size() == 1) call(item.regions[0]);
  for (std::size_t variant = 0; item.regions.size() > 1 && variant < item.regions.size(); ++variant) {
    const bool last = variant + 1 == item.regions.size();
    const std::string test = last ? "" : fmt::format("if (kVariant[layer] == {})", variant);
    if (variant == 0)
      out_.open(test);
    else
      out_.middle("} else " + (last ? std::string() : test + " ") + "{");
    call(item.regions[variant]);
  }
  if (item.chunks || item.regions.size() > 1) out_.close();
}

void OrderPrinter::loop(const ScheduleItem& item) {
  out_.open(item.does == Does::layers_up ? "for (std::size_t layer = 0; layer < $n$; ++layer)"
                                         : "for (std::size_t layer = $n$; layer-- > 0;)",
            {{"n", std::to_string(schedule_.layers())}});
  looped_ = true;
  items(item.body);
  looped_ = false;
  out_.close();
}

std::string OrderPrinter::layer_of(const ScheduleItem& item) const {
  if (!looped_) return std::to_string(item.layer);
  if (item.layer == 0) return "layer";
  return fmt::format("layer {} {}", item.layer < 0 ? "-" : "+", item.layer < 0 ? -item.layer : item.layer);
}

void OrderPrinter::send(const ScheduleItem& item) {
  const std::size_t region = item.regions[0];
  out_.line("$when$$name$($arguments$);", {{"when", item.when == When::last ? "if (last) " : ""},
                                           {"name", plan_.graph.regions[region].name},
                                           {"arguments", region_arguments(plan_, region, layer_of(item))}});
}

std::string OrderPrinter::gather_argument(const std::string& when) const {
  return schedule_.gathers == When::gathering ? when : "";
}

std::string OrderPrinter::first_argument(const std::string& first) const {
  const std::vector<plan::Stop> stops = plan::stops(schedule_, PassName::forward);
  const bool any = std::ranges::any_of(
      stops, [&](const plan::Stop& stop) { return stop.item->does == Does::run && asks(plan_, stop.region); });
  return any ? first : "";
}

void OrderPrinter::function(const std::string& head, PassName pass) {
  out_.open(head);
  items(schedule_.pass(pass));
  out_.close();
  out_.blank();
}

void OrderPrinter::forward() {
  function("void forward(Step& s" + gather_argument(", bool gather") + first_argument(", bool first") + ")",
           PassName::forward);
}

void OrderPrinter::gather_weights() {
  if (schedule_.gathers == When::gathering) return function("void gather_weights(Step& s)", PassName::gather_weights);
  out_.line("/// $why$", {{"why", schedule_.gathers == When::always ? "Every pass gathers the weights."
                                                                    : "Every rank has all weights."}});
  out_.line("void gather_weights(Step&) {}");
  out_.blank();
}

void OrderPrinter::passes() {
  gather_weights();
  const Items& micro_batch = schedule_.pass(PassName::micro_batch);
  const bool ends = std::ranges::any_of(micro_batch, [](const ScheduleItem& item) { return item.when == When::last; });
  function(fmt::format("void micro_batch(Step& s, bool first, bool{})", ends ? " last" : ""), PassName::micro_batch);
  function("void optimizer_step(Step& s)", PassName::optimizer_step);
  function("void evaluate(Step& s, bool first)", PassName::evaluate);
  function("void next_logits(Step& s)", PassName::next_logits);
  if (!schedule_.pass(PassName::audit).empty()) function("void audit(Step& s)", PassName::audit);
}

}  // namespace llmc::emit
