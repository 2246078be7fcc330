#include "compiler/tools/report/advice_report.h"

#include <fmt/format.h>

#include <cstdlib>

#include "compiler/tools/report/plan_report.h"
#include "text/plural.h"

namespace llmc::report {

using plan::Hint;
using plan::Limit;
using plan::Limits;

namespace {

std::string limit_text(const Limit& limit) {
  const auto within = [](std::int64_t to_within) {
    return to_within == 0 ? " or more" : to_within > 1 ? fmt::format(" (to within {})", to_within) : "";
  };
  std::string text = fmt::format("{}{}", limit.as_chosen, within(limit.to_within));
  if (limit.recomputing_all > limit.as_chosen)
    text += fmt::format(", with memory.recompute: full {}{}", *limit.recomputing_all, within(limit.all_to_within));
  return text;
}

std::string hint_text(const plan::Plan& plan, const Hint& hint) {
  std::string words;
  for (const spec::Change& change : hint.changes)
    words += fmt::format("{}{} {} instead of {}", words.empty() ? "" : ", ", change.path, change.after, change.before);
  std::string line =
      fmt::format("  {:+.1f} ms ({:+.1f}%)", -1e3 * hint.seconds, -100 * hint.seconds / plan.cost.time.seconds);
  if (hint.bytes) line += ", " + signed_bytes(static_cast<double>(hint.bytes));
  if (hint.parameters)
    line += fmt::format(", {}{} parameter{}", hint.parameters > 0 ? "+" : "-",
                        human_count(std::abs(static_cast<double>(hint.parameters))), plural(hint.parameters));
  return line + ": " + words + "\n";
}

/// Without a search over memory.recompute only the spec's own was tried.
nlohmann::ordered_json limit_json(const Limit& limit) {
  nlohmann::ordered_json json = {{"as_chosen", limit.as_chosen},
                                 {"to_within", limit.to_within},
                                 {"recompute_full", nullptr},
                                 {"recompute_full_to_within", nullptr}};
  if (limit.recomputing_all) {
    json["recompute_full"] = *limit.recomputing_all;
    json["recompute_full_to_within"] = limit.all_to_within;
  }
  return json;
}

}  // namespace

std::string advice_text(const plan::Plan& plan, const Limits& limits, const std::vector<Hint>& hints) {
  std::string out = fmt::format("\nmost that fits: micro_batch {}; sequence_length {}, one sequence a pass\n",
                                limit_text(limits.micro_batch), limit_text(limits.sequence_length));
  if (hints.empty()) return out + "hints: none of the planned changes saves half a percent of a step\n";
  out += "hints, each planned alone, with all other choices as above:\n";
  for (const Hint& hint : hints) out += hint_text(plan, hint);
  return out;
}

void add_advice(nlohmann::ordered_json& json, const Limits& limits, const std::vector<Hint>& hints) {
  using Json = nlohmann::ordered_json;
  json["limits"] = {{"micro_batch", limit_json(limits.micro_batch)},
                    {"sequence_length", limit_json(limits.sequence_length)}};
  Json list = Json::array();
  for (const Hint& hint : hints) {
    Json changes = Json::array();
    for (const spec::Change& change : hint.changes)
      changes.push_back({{"key", change.path}, {"before", change.before}, {"after", change.after}});
    list.push_back({{"changes", changes},
                    {"step_seconds_less", hint.seconds},
                    {"arena_bytes_more", hint.bytes},
                    {"parameters_more", hint.parameters}});
  }
  json["hints"] = list;
}

}  // namespace llmc::report
