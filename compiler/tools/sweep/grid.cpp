#include "compiler/tools/sweep/grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "error.h"
#include "spec/source.h"
#include "text/console.h"

namespace llmc::sweep {

namespace {

/// Splits at the commas that are outside of brackets, braces and quotes.
std::vector<std::string> values_in(const std::string& text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote)
      quote = c == quote ? 0 : quote;
    else if (c == '"' || c == '\'')
      quote = c;
    else if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    if (c == ',' && depth == 0 && !quote)
      values.emplace_back();
    else
      values.back() += c;
  }
  return values;
}

[[noreturn]] void refuse(const std::string& text) { throw Failure(Exit::usage, text); }

}  // namespace

std::size_t Grid::size() const {
  std::size_t runs = 1;
  for (const Axis& axis : axes) runs *= axis.values.size();
  return runs;
}

std::vector<std::size_t> Grid::place_of(std::size_t run) const {
  std::vector<std::size_t> place(axes.size());
  for (std::size_t i = axes.size(); i-- > 0; run /= axes[i].values.size()) place[i] = run % axes[i].values.size();
  return place;
}

std::size_t Grid::run_at(std::span<const std::size_t> place) const {
  std::size_t run = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) run = run * axes[i].values.size() + place[i];
  return run;
}

std::vector<std::string> Grid::words_of(std::size_t run) const {
  std::vector<std::string> words = fixed;
  const std::vector<std::size_t> place = place_of(run);
  for (std::size_t i = 0; i < axes.size(); ++i) words.push_back(axes[i].key + "=" + axes[i].values[place[i]]);
  return words;
}

std::string Grid::label(std::size_t run) const {
  const std::vector<std::string> words = words_of(run);
  return fmt::format("{}", fmt::join(words.begin() + static_cast<std::ptrdiff_t>(fixed.size()), words.end(), " "));
}

Grid parse_grid(std::span<const std::string> words) {
  Grid grid;
  std::set<std::string> keys;
  double runs = 1;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0)
      refuse(fmt::format("'{}' is not key=value. Write the keys of the grid as optimizer.lr=1e-4,3e-4,1e-3",
                         spec::printable(word)));
    Axis axis{word.substr(0, equals), values_in(word.substr(equals + 1))};
    if (!keys.insert(axis.key).second)
      refuse(fmt::format("{} stands twice. Write all of its values in one word: {}=A,B", spec::printable(axis.key),
                         spec::printable(axis.key)));
    if (axis.values.size() > 1 && axis.key == "name")
      refuse("name makes no runs that differ. Write other keys, or one name");
    if (axis.values.size() == 1) {
      grid.fixed.push_back(word);
      continue;
    }
    if (std::ranges::any_of(axis.values, &std::string::empty))
      refuse(fmt::format("'{}' has an empty value between its commas. Write {}=A,B", spec::printable(word),
                         spec::printable(axis.key)));
    runs *= static_cast<double>(axis.values.size());
    grid.axes.push_back(std::move(axis));
  }
  if (grid.axes.empty())
    refuse("no key has more than one value. Write optimizer.lr=1e-4,3e-4,1e-3, or start one run with llmc run");
  if (runs > static_cast<double>(kMostRuns))
    refuse(fmt::format("the grid has {:.0f} runs, and a sweep has at most {}. Write fewer values, or several sweeps",
                       runs, format_count(kMostRuns)));
  return grid;
}

}  // namespace llmc::sweep
