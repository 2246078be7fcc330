#include "compiler/spec/phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <ranges>
#include <string>

#include "spec/fingerprint.h"
#include "spec/length/token_budget.h"
#include "spec/schema/schema.h"
#include "spec/values.h"

namespace llmc::spec {

namespace {

constexpr std::array kNever = {"name", "extends", "phases", "schedule", "parallel", "target", "init", "seed"};

/// Why a key must not differ between phases; empty if it may.
std::string refusal(const std::string& path) {
  if (path.starts_with("model.") && std::ranges::count(soft_model_keys(), path) == 0)
    return "the tensors of a run keep their shapes and their meaning";
  if (path.starts_with("target.") || path.starts_with("parallel.")) return "a run keeps its devices";
  if (path == "optimizer.kind" || path == "optimizer.muon.normalise" || path == "precision.optimizer_state" ||
      path == "precision.master")
    return "the optimizer's state is that of the whole run";
  return "";
}

/// Where a phase ends: after a share of the run, or at a step.
struct Border {
  double number = 0;  // percent of the run, or a whole number of steps
  bool share = false;

  /// Step of the border in a run of so many.
  std::int64_t step(std::int64_t steps) const {
    return share ? std::llround(number / 100 * static_cast<double>(steps)) : static_cast<std::int64_t>(number);
  }
};

/// Nothing if the text is neither a step nor a percentage.
std::optional<Border> border_of(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string rest(end, text.data() + text.size());
  if (error != std::errc() || !std::isfinite(number) || number <= 0) return std::nullopt;
  if (rest == "%") return number > 100 ? std::nullopt : std::optional(Border{number, true});
  if (!rest.empty() || number != std::floor(number) || number > 1e15) return std::nullopt;
  return Border{number, false};
}

void report_border(const PhaseNode& node, std::string message, std::string advice,
                   std::vector<Diagnostic>& diagnostics) {
  diagnostics.push_back({"E0351", std::move(message), std::move(advice), {place_of(node.until.span)}});
}

/// Steps of batches with `batch` tokens that end nearest to `tokens`, or, rounded up, that contain them.
std::int64_t steps_to(double tokens, std::int64_t batch, bool contains) {
  const double steps = tokens / static_cast<double>(batch);
  return contains ? static_cast<std::int64_t>(std::ceil(steps)) : std::llround(steps);
}

}  // namespace

std::vector<PhaseNode> take_phases(Node& root, std::vector<Diagnostic>& diagnostics) {
  std::vector<PhaseNode> phases;
  const Node* found = root.find("phases");
  if (!found) return phases;
  const auto fail = [&](const Span& span, std::string message, std::string advice) {
    diagnostics.push_back({"E0350", std::move(message), std::move(advice), {place_of(span)}});
  };
  const Node list = *found;
  std::erase_if(root.members, [](const Member& member) { return member.key.text == "phases"; });
  if (list.kind == Node::Kind::bad) return phases;
  if (list.kind != Node::Kind::list || list.items.size() < 2 || list.items.size() > kMostPhases) {
    fail(list.span, "phases is not a list of two phases or more",
         fmt::format("write phases: [{{until: 90%}}, {{until: 100%, data: ...}}], at most {} of them", kMostPhases));
    return phases;
  }
  for (Node entry : list.items) {
    if (entry.kind == Node::Kind::bad) continue;
    const Node* until = entry.kind == Node::Kind::map ? entry.find("until") : nullptr;
    if (!until || until->kind != Node::Kind::scalar) {
      fail(entry.span, "a phase has no `until`", "write until: 90%, or the step after which the phase ends");
      continue;
    }
    for (const char* word : kNever)
      if (const Node* value = entry.find(word))
        fail(value->span, fmt::format("a phase cannot have its own {}", word),
             "write it at the top of the spec, for the whole run");
    PhaseNode phase{.over = {}, .until = *until};
    std::erase_if(entry.members, [](const Member& member) { return member.key.text == "until"; });
    phase.over = std::move(entry);
    phases.push_back(std::move(phase));
  }
  return phases;
}

std::optional<std::int64_t> steps_of_ramp(std::vector<PhaseNode>& nodes, const std::vector<Spec>& phases,
                                          std::vector<Diagnostic>& diagnostics) {
  const Spec& first = phases.front();
  const auto batch_of = [](const Spec& phase) { return phase.batch.tokens; };
  const auto [least, most] = std::ranges::minmax(phases | std::views::transform(batch_of));
  const double budget = static_cast<double>(tokens_of(first.schedule.tokens, first.model));
  if (!first.schedule.tokens.given() || least == most || least < 1 || budget < 1) return std::nullopt;
  double trained = 0;
  std::int64_t step = 0;
  std::vector<std::int64_t> ends;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool last = i + 1 == nodes.size();
    const std::string until = printable(nodes[i].until.text);
    const auto fail = [&](std::string message, std::string advice) {
      report_border(nodes[i], std::move(message), std::move(advice), diagnostics);
      return std::nullopt;
    };
    const std::optional<Border> border = border_of(nodes[i].until.text);
    if (!border)
      return fail(fmt::format("until is {}, which is neither a share of the tokens nor a step", until),
                  "write until: 90%, or a step");
    const std::int64_t batch = phases[i].batch.tokens;
    const std::int64_t own =
        border->share ? steps_to(border->number / 100 * budget - trained, batch, last) : border->step(0) - step;
    if (own < 1)
      return fail(fmt::format("until {} is not after step {}, where the phase before ends", until, step),
                  "let each phase end after the one before");
    trained += static_cast<double>(own) * static_cast<double>(batch);
    step += own;
    ends.push_back(step);
    // Rounded to a whole step, the last border may lie past the budget by less than its batch.
    if (trained - budget >= static_cast<double>(batch) || (!last && trained >= budget))
      return fail(fmt::format("{:.0f} tokens are trained on up to until {}, and schedule.tokens are {:.0f}", trained,
                              until, budget),
                  last ? "write until: 100%" : "write an earlier step, or more schedule.tokens");
    if (last && trained < budget)
      return fail(fmt::format("the last phase ends after {:.0f} of {:.0f} tokens", trained, budget),
                  "write until: 100%");
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].until.text = std::to_string(ends[i]);
  return step;
}

void join_phases(const std::vector<PhaseNode>& nodes, std::vector<Resolved>& phases,
                 std::vector<Diagnostic>& diagnostics) {
  const std::int64_t steps = phases.front().spec.schedule.steps;
  std::vector<std::int64_t> ends;
  for (const PhaseNode& node : nodes) {
    const auto fail = [&](std::string message, std::string advice) {
      report_border(node, std::move(message), std::move(advice), diagnostics);
    };
    const std::optional<Border> border = border_of(node.until.text);
    const std::int64_t before = ends.empty() ? 0 : ends.back(), end = border ? border->step(steps) : before;
    if (!border)
      fail(fmt::format("until is {}, which is neither a share of the steps nor a step", printable(node.until.text)),
           fmt::format("write until: 90%, or a step up to {}", steps));
    else if (end <= before || end > steps)
      fail(fmt::format("until {} is step {}, which is not between step {} and the last one, {}",
                       printable(node.until.text), end, before, steps),
           end > steps ? fmt::format("write at most {}, or 100%", steps) : "let each phase end after the one before");
    else if (&node == &nodes.back() && end != steps)
      fail(fmt::format("the last phase ends at step {} of {}", end, steps), "write until: 100%");
    ends.push_back(end);
  }
  std::map<std::int64_t, std::int64_t> most_tokens;  // by sequence length
  double tokens = 0;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Batch& batch = phases[i].spec.batch;
    std::int64_t& most = most_tokens[batch.sequence_length];
    most = std::max(most, batch.tokens);
    tokens += static_cast<double>(ends[i] - (i ? ends[i - 1] : 0)) * static_cast<double>(batch.tokens);
  }
  for (std::size_t i = 0; i < phases.size(); ++i) {
    Phase& phase = phases[i].spec.phase;
    phase = {.number = static_cast<int>(i) + 1,
             .count = static_cast<int>(phases.size()),
             .first = i ? ends[i - 1] : 0,
             .last = ends[i],
             .steps = ends.back(),
             .borders = {ends.begin(), ends.end() - 1},
             .changed = {},
             .tokens = tokens,
             .most_tokens = most_tokens[phases[i].spec.batch.sequence_length]};
    if (i == 0) continue;
    for (const Change& change : changes(values_of(phases[i - 1]), values_of(phases[i]))) {
      if (const std::string why = refusal(change.path); !why.empty())
        diagnostics.push_back({"E0352",
                               fmt::format("{} changes from {} to {} in phase {}", change.path,
                                           printable(change.before), printable(change.after), i + 1),
                               fmt::format("remove it from the phase: {}", why),
                               {place_of(nodes[i].over.span)}});
      phase.changed.push_back(change.path);
    }
  }
}

}  // namespace llmc::spec
