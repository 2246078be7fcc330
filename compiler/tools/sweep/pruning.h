// The rule by which a sweep ends runs that fall behind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmc::sweep {

/// "0.2@25%": at a quarter of its steps, and at each further quarter before the last step, a run is ended if its
/// training loss is more than 0.2 nats above that of the best run which has come as far and has neither diverged nor
/// failed. It is compared once a share, when it passes it. A run's loss there is the mean of a twentieth of its steps.
struct PruneRule {
  double margin = 0;  // nats
  int percent = 0;    // of a run's steps, between two comparisons

  /// Shares in percent of the steps at which runs are compared, ascending: 25, 50, 75.
  std::vector<int> shares() const;
};

/// Throws Failure(usage).
PruneRule parse_rule(const std::string& text);

/// Steps at which a share is done, at least 1, and the steps of a mean.
std::int64_t step_at(int percent, std::int64_t steps);
std::int64_t window_of(std::int64_t steps);

/// Compares the losses of the runs at one share; nothing: a run that has not come as far, NaN: not finite. Returns how
/// far a run is behind the best one; nothing if the rule keeps it.
std::optional<double> behind(const PruneRule& rule, std::optional<double> loss,
                             const std::vector<std::optional<double>>& all);

}  // namespace llmc::sweep
