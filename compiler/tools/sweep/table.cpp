#include "compiler/tools/sweep/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "compiler/tools/sweep/ranking.h"
#include "spec/source.h"
#include "text/console.h"

namespace llmc::sweep {

namespace {

using Row = std::vector<std::string>;

std::string shown(const std::optional<double>& loss) {
  return loss ? fmt::format("{:.4f}", without_nan_sign(*loss)) : "-";
}

Row row(const Record& record, std::size_t index) {
  const Run& run = record.runs[index];
  Row cells = {std::filesystem::path(run.folder).filename().string()};
  const std::vector<std::size_t> place = record.grid.place_of(index);
  for (std::size_t i = 0; i < place.size(); ++i) cells.push_back(spec::printable(record.grid.axes[i].values[place[i]]));
  cells.insert(cells.end(), {name(run.state), fmt::format("{}/{}", format_count(run.step), format_count(run.steps)),
                             shown(run.loss), shown(run.val_loss)});
  return cells;
}

/// Returns all runs, those of ranked settings first.
std::vector<std::size_t> order(const Record& record, const Ranking& ranking) {
  std::vector<std::size_t> runs;
  for (const Setting& setting : ranking.settings) runs.insert(runs.end(), setting.runs.begin(), setting.runs.end());
  for (std::size_t run = 0; run < record.runs.size(); ++run)
    if (!std::ranges::count(runs, run)) runs.push_back(run);
  return runs;
}

/// Names the finished runs that are not ranked; empty: none.
std::string unevaluated(const Record& record, const Ranking& ranking) {
  std::vector<std::string> names;
  for (const std::size_t run : ranking.unevaluated)
    names.push_back(std::filesystem::path(record.runs[run].folder).filename().string());
  return names.empty()
             ? ""
             : fmt::format("not ranked, without a validation loss of the last step: {}\n", fmt::join(names, ", "));
}

std::string best(const Ranking& ranking) {
  if (ranking.settings.empty()) return "no run has finished yet\n";
  const Setting& first = ranking.settings.front();
  // Runs that differ by their seeds alone are one setting without a name.
  std::string text = fmt::format("best: {}{} {:.4f}", first.label.empty() ? "" : spec::printable(first.label) + ", ",
                                 ranking.validation ? "validation loss" : "loss", first.loss);
  if (first.runs.size() > 1)
    text += fmt::format(", the mean of {} seeds ({:.4f} apart)", first.runs.size(), first.spread);
  text += "\n";
  for (const Neighbour& each : ranking.neighbours)
    text += fmt::format("  {}={}: {}\n", spec::printable(each.key), spec::printable(each.value),
                        each.loss ? fmt::format("{:.4f} ({:+.4f})", *each.loss, *each.loss - first.loss) : "not known");
  for (const std::string& key : ranking.edges)
    text += fmt::format("  {} is at the edge of the grid: the best value may lie beyond it\n", spec::printable(key));
  return text;
}

}  // namespace

std::string as_text(const Record& record) {
  const Ranking ranking = rank(record);
  std::vector<Row> rows = {{"run"}};
  for (const Axis& axis : record.grid.axes) rows[0].push_back(spec::printable(axis.key));
  rows[0].insert(rows[0].end(), {"state", "step", "loss", "val"});
  for (const std::size_t run : order(record, ranking)) rows.push_back(row(record, run));
  std::vector<std::size_t> widths(rows[0].size());
  for (const Row& each : rows)
    for (std::size_t c = 0; c < each.size(); ++c) widths[c] = std::max(widths[c], each[c].size());
  std::string text;
  for (const Row& each : rows) {
    for (std::size_t c = 0; c < each.size(); ++c)
      text += c + 3 >= each.size() ? fmt::format("  {:>{}}", each[c], widths[c])
                                   : fmt::format("{}{:<{}}", c ? "  " : "", each[c], widths[c]);
    text += "\n";
  }
  return text + best(ranking) + unevaluated(record, ranking);
}

}  // namespace llmc::sweep
