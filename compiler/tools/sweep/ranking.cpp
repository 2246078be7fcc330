#include "compiler/tools/sweep/ranking.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compiler/tools/sweep/numbers.h"

namespace llmc::sweep {

namespace {

using Place = std::vector<std::size_t>;

class Ranker {
 public:
  explicit Ranker(const Record& record) : record_(record) {
    const std::vector<Axis>& axes = record.grid.axes;
    const auto found = std::ranges::find(axes, kSeed, &Axis::key);
    if (found != axes.end()) seed_ = static_cast<std::size_t>(found - axes.begin());
    const auto is_evaluated = [](const Run& run) { return run.state == State::finished && run.val_loss; };
    ranking_.validation = std::ranges::any_of(record.runs, is_evaluated);
    for (std::size_t run = 0; ranking_.validation && run < record.runs.size(); ++run)
      if (record.runs[run].state == State::finished && !record.runs[run].val_loss) ranking_.unevaluated.push_back(run);
  }

  Ranking rank() {
    for (std::size_t run = 0; run < record_.runs.size(); ++run)
      if (const Place place = record_.grid.place_of(run); !seed_ || place[*seed_] == 0)
        if (std::optional<Setting> setting = setting_at(place)) ranking_.settings.push_back(*setting);
    std::ranges::stable_sort(ranking_.settings, {}, &Setting::loss);
    if (!ranking_.settings.empty()) look_around(record_.grid.place_of(ranking_.settings.front().runs.front()));
    return std::move(ranking_);
  }

 private:
  std::optional<double> loss_of(const Run& run) const {
    if (run.state != State::finished) return std::nullopt;
    const std::optional<double> loss = ranking_.validation ? run.val_loss : run.loss;
    return loss && std::isfinite(*loss) ? loss : std::nullopt;
  }

  std::optional<Setting> setting_at(Place place) const {
    Setting setting;
    double smallest = INFINITY, largest = -INFINITY;
    const std::size_t seeds = seed_ ? record_.grid.axes[*seed_].values.size() : 1;
    for (std::size_t seed = 0; seed < seeds; ++seed) {
      if (seed_) place[*seed_] = seed;
      const std::size_t run = record_.grid.run_at(place);
      const std::optional<double> loss = loss_of(record_.runs[run]);
      if (!loss) return std::nullopt;
      setting.runs.push_back(run);
      setting.loss += *loss / static_cast<double>(seeds);
      smallest = std::min(smallest, *loss);
      largest = std::max(largest, *loss);
    }
    setting.spread = largest - smallest;
    std::vector<std::string> words;
    for (std::size_t i = 0; i < place.size(); ++i)
      if (i != seed_) words.push_back(record_.grid.axes[i].key + "=" + record_.grid.axes[i].values[place[i]]);
    setting.label = fmt::format("{}", fmt::join(words, " "));
    return setting;
  }

  void look_around(const Place& best) {
    for (std::size_t i = 0; i < best.size(); ++i) {
      const Axis& axis = record_.grid.axes[i];
      if (i == seed_) continue;
      const std::vector<std::size_t> order = ascending(axis);
      const auto at = static_cast<std::size_t>(std::ranges::find(order, best[i]) - order.begin());
      for (const std::size_t beside : {at - 1, at + 1}) {
        if (beside >= order.size()) continue;  // also of at - 1 = -1
        Place place = best;
        place[i] = order[beside];
        const std::optional<Setting> setting = setting_at(place);
        ranking_.neighbours.push_back(
            {axis.key, axis.values[place[i]], setting ? std::optional(setting->loss) : std::nullopt});
      }
      if (is_numeric(axis) && order.size() > 2 && (at == 0 || at + 1 == order.size()))
        ranking_.edges.push_back(axis.key);
    }
  }

  const Record& record_;
  std::optional<std::size_t> seed_;
  Ranking ranking_;
};

}  // namespace

Ranking rank(const Record& record) { return Ranker(record).rank(); }

}  // namespace llmc::sweep
