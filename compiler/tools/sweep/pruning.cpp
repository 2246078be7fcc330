#include "compiler/tools/sweep/pruning.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "error.h"
#include "spec/source.h"

namespace llmc::sweep {

namespace {

std::optional<double> number_of(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

}  // namespace

std::vector<int> PruneRule::shares() const {
  std::vector<int> shares;
  for (int share = percent; share < 100; share += percent) shares.push_back(share);
  return shares;
}

PruneRule parse_rule(const std::string& text) {
  const std::size_t at = text.find('@');
  const std::optional<double> margin = number_of(text.substr(0, at));
  const std::string rest = at == std::string::npos ? "" : text.substr(at + 1);
  int percent = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), percent);
  if (!margin || *margin <= 0 || error != std::errc() || std::string(end) != "%" || percent < 1 || percent > 99)
    throw Failure(Exit::usage,
                  fmt::format("--prune '{}' is not a rule. Write MARGIN@SHARE%, such as 0.2@25%: after each quarter of "
                              "its steps a run is ended that is more than 0.2 nats behind the best one",
                              spec::printable(text)));
  return {*margin, percent};
}

std::int64_t step_at(int percent, std::int64_t steps) { return std::max<std::int64_t>(1, steps * percent / 100); }

std::int64_t window_of(std::int64_t steps) { return std::max<std::int64_t>(1, steps / 20); }

std::optional<double> behind(const PruneRule& rule, std::optional<double> loss,
                             const std::vector<std::optional<double>>& all) {
  if (!loss) return std::nullopt;
  double best = INFINITY;
  for (const std::optional<double>& other : all)
    if (other && *other < best) best = *other;
  if (!std::isfinite(best)) return std::nullopt;
  const double distance = std::isfinite(*loss) ? *loss - best : INFINITY;
  return distance > rule.margin ? std::optional(distance) : std::nullopt;
}

}  // namespace llmc::sweep
