#include "train/plateau.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "train/guards.h"

namespace llmc {

Fall fall_of(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  const double middle = (count - 1) / 2;
  double mean = 0, slope = 0, squares = 0;
  for (const double value : values) mean += value / count;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double at = static_cast<double>(i) - middle;
    slope += at * (values[i] - mean);
    squares += at * at;
  }
  slope /= squares;
  std::vector<double> apart;
  for (std::size_t i = 0; i < values.size(); ++i)
    apart.push_back(values[i] - mean - slope * (static_cast<double>(i) - middle));
  return {-slope * (count - 1), spread_of(apart).spread};
}

double update_ratio(std::span<const float> norms) {
  double weight = 0, update = 0;
  for (std::size_t i = 0; i + 2 < norms.size(); i += 3) {
    weight += std::pow(static_cast<double>(norms[i + 1]), 2);
    update += std::pow(static_cast<double>(norms[i + 2]), 2);
  }
  return std::sqrt(update / weight);
}

Plateau::Plateau(std::int64_t steps, PlateauState state) {
  const std::int64_t block = (steps + kBlocks - 1) / kBlocks;
  state_.told = state.told;
  if (state.block == block) state_ = std::move(state);
  state_.block = block;
}

std::string Plateau::observe(std::int64_t step, double loss, double rate, std::span<const float> norms) {
  if (state_.block == 0 || state_.told || !std::isfinite(loss)) return {};
  state_.sum += loss;
  if (++state_.count < state_.block) return {};
  state_.means.push_back(std::exchange(state_.sum, 0) / static_cast<double>(std::exchange(state_.count, 0)));
  if (static_cast<std::int64_t>(state_.means.size()) < kBlocks) return {};
  if (static_cast<std::int64_t>(state_.means.size()) > kBlocks) state_.means.erase(state_.means.begin());
  const auto [fall, spread] = fall_of(state_.means);
  if (fall > std::max(spread, kFloor * std::abs(state_.means.back()))) return {};
  state_.told = true;
  return fmt::format(
      "step {}: in the last {} steps the loss has not fallen by more than its spread (guards.plateau). Means of {} "
      "steps went from {:.5g} to {:.5g}, with a fall of {:.2g} and a spread of {:.2g}, at a learning rate of {:.2e}. "
      "{}. "
      "If this is not the end of the run, look at the gradient's norm and the data of these steps, and try another "
      "optimizer.lr from an earlier checkpoint",
      step, kBlocks * state_.block, state_.block, state_.means.front(), state_.means.back(), fall, spread, rate,
      norms.empty() ? std::string("With metrics.per_parameter this warning has the ratio of update to weight")
                    : fmt::format("The ratio of update to weight is {:.2e}", update_ratio(norms)));
}

}  // namespace llmc
