#include "compiler/tools/sweep/chart.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/tools/sweep/numbers.h"
#include "compiler/tools/sweep/ranking.h"

namespace llmc::sweep {

using Json = nlohmann::ordered_json;

namespace {

std::optional<std::size_t> horizontal(const Grid& grid) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < grid.axes.size(); ++i) {
    if (!is_numeric(grid.axes[i]) || grid.axes[i].key == kSeed) continue;
    if (grid.axes[i].key == "optimizer.lr") return i;
    if (!first) first = i;
  }
  return first;
}

/// Returns a line for each value of the axis `by`; one line if it is nothing.
Json lines(const Record& record, const Ranking& ranking, std::size_t x, std::optional<std::size_t> by) {
  std::map<std::size_t, std::map<double, double>> lowest;  // by value of `by`, then by x
  for (const Setting& setting : ranking.settings) {
    const std::vector<std::size_t> place = record.grid.place_of(setting.runs.front());
    const double at = *number_of(record.grid.axes[x].key, record.grid.axes[x].values[place[x]]);
    lowest[by ? place[*by] : 0].try_emplace(at, setting.loss);  // settings ascend by loss
  }
  Json all = Json::array();
  for (const auto& [value, points] : lowest) {
    Json line = {{"name", by ? record.grid.axes[*by].key + "=" + record.grid.axes[*by].values[value] : ""},
                 {"x", Json::array()},
                 {"y", Json::array()}};
    for (const auto& [at, loss] : points) {
      line["x"].push_back(at);
      line["y"].push_back(loss);
    }
    all.push_back(std::move(line));
  }
  return all;
}

}  // namespace

Json charts(const Record& record) {
  const Ranking ranking = rank(record);
  const std::optional<std::size_t> x = horizontal(record.grid);
  Json all = {{"x", x ? Json(record.grid.axes[*x].key) : Json()},
              {"of", ranking.validation ? "val_loss" : "loss"},
              {"charts", Json::array()}};
  if (!x) return all;
  for (std::size_t by = 0; by < record.grid.axes.size(); ++by)
    if (by != *x && record.grid.axes[by].key != kSeed)
      all["charts"].push_back({{"by", record.grid.axes[by].key}, {"lines", lines(record, ranking, *x, by)}});
  if (all["charts"].empty())
    all["charts"].push_back({{"by", nullptr}, {"lines", lines(record, ranking, *x, std::nullopt)}});
  return all;
}

}  // namespace llmc::sweep
