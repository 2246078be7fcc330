#include "spec/recompute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "spec/scalars.h"

namespace llmc::spec {
namespace {

std::string words_text(const std::vector<std::string>& words) { return fmt::format("[{}]", fmt::join(words, ", ")); }

}  // namespace

std::string recompute_text(const Recompute& recompute) {
  switch (recompute.kind) {
    case Recompute::Kind::none: return "none";
    case Recompute::Kind::full: return "full";
    case Recompute::Kind::automatic: return "auto";
    case Recompute::Kind::every: return fmt::format("{{every: {}}}", recompute.every);
    case Recompute::Kind::ops: return words_text(recompute.ops);
    case Recompute::Kind::layers: break;
  }
  std::string ranges;
  for (const RecomputeRange& range : recompute.layers)
    ranges += fmt::format("{}{}: {}", ranges.empty() ? "" : ", ", range_text(range), recomputed_text(range));
  return fmt::format("{{layers: {{{}}}}}", ranges);
}

std::string recomputed_text(const RecomputeRange& range) {
  if (range.full) return "full";
  return range.ops.empty() ? "none" : words_text(range.ops);
}

std::string range_text(const RecomputeRange& range) {
  return range.first == range.last ? fmt::format("{}", range.first) : fmt::format("{}-{}", range.first, range.last);
}

std::optional<RecomputeRange> parse_range(const std::string& text) {
  const std::size_t dash = text.find('-');
  const auto first = parse_integer(text.substr(0, dash)).value;
  const auto last = dash == std::string::npos ? first : parse_integer(text.substr(dash + 1)).value;
  if (!first || !last || *first > *last || *first < 0) return {};
  return RecomputeRange{.first = *first, .last = *last};
}

}  // namespace llmc::spec
