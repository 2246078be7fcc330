#include "compiler/plan/recompute_solver.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

namespace llmc::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Options that no other one beats in both bytes and seconds, by bytes; of equals the one that computes least again.
std::vector<LayerOption> front_of(std::vector<LayerOption> options) {
  std::ranges::sort(options, [](const LayerOption& a, const LayerOption& b) {
    return std::tuple(a.kept, a.seconds, std::popcount(a.groups)) <
           std::tuple(b.kept, b.seconds, std::popcount(b.groups));
  });
  std::vector<LayerOption> front;
  for (const LayerOption& option : options)
    if (front.empty() || option.seconds < front.back().seconds) front.push_back(option);
  return front;
}

/// The lower convex hull of a front: seconds of a layer that may have fractions of options.
class Hull {
 public:
  explicit Hull(const std::vector<LayerOption>& front) {
    for (const LayerOption& option : front) {
      const Point next{static_cast<double>(option.kept), option.seconds};
      while (points_.size() > 1 && !is_below(points_[points_.size() - 2], points_.back(), next)) points_.pop_back();
      points_.push_back(next);
    }
  }

  /// At so many bytes a layer; infinity where no option is as small.
  double at(double bytes) const {
    if (bytes < points_.front().bytes) return kNever;
    const auto above = std::ranges::upper_bound(points_, bytes, {}, &Point::bytes);
    if (above == points_.end()) return points_.back().seconds;
    const Point &a = *(above - 1), &b = *above;
    return a.seconds + (b.seconds - a.seconds) * (bytes - a.bytes) / (b.bytes - a.bytes);
  }

 private:
  struct Point {
    double bytes, seconds;
  };
  /// Whether b lies below the line from a to c.
  static bool is_below(const Point& a, const Point& b, const Point& c) {
    return (b.seconds - a.seconds) * (c.bytes - a.bytes) < (c.seconds - a.seconds) * (b.bytes - a.bytes);
  }
  std::vector<Point> points_;
};

/// One multiple-choice knapsack: the options of `front`, by bytes, for each of `layers` layers within `room` bytes.
class Knapsack {
 public:
  Knapsack(std::vector<LayerOption> front, std::int64_t layers, std::size_t room)
      : front_(std::move(front)), hull_(front_), layers_(layers), room_(room) {}

  /// The places in the front of each layer's option, where the sum of seconds is below `best`; else nothing.
  std::vector<std::size_t> solve(double best) {
    best = std::min(best, rounded() * (1 + kTolerance));
    stages_.assign(1, {State{0, 0, 0, 0}});
    for (std::int64_t layer = 0; layer < layers_; ++layer) extend(layers_ - layer - 1, best);
    if (stages_.back().empty() || stages_.back().back().seconds >= best) return {};
    std::vector<std::size_t> choice;
    std::size_t state = stages_.back().size() - 1;  // fronts fall in seconds
    for (std::size_t stage = stages_.size() - 1; stage > 0; --stage) {
      choice.push_back(stages_[stage][state].option);
      state = stages_[stage][state].from;
    }
    return choice;
  }

 private:
  // A sum of the same seconds in another order is the same solution.
  static constexpr double kTolerance = 1e-12;

  struct State {
    std::size_t bytes;
    double seconds;
    std::size_t option, from;
  };

  /// A solution to begin with, near the hull's: of each two options so many layers as fill the room, and the fastest
  /// that then fits for the last one.
  double rounded() const {
    const auto layers = static_cast<std::size_t>(layers_);
    double best = kNever;
    for (const LayerOption& low : front_)
      for (const LayerOption& high : front_) {
        if (low.kept * layers > room_ || high.kept < low.kept) continue;
        const std::size_t step = high.kept - low.kept, room = room_ - low.kept * layers;
        const std::size_t many = step ? std::min(layers - 1, room / step) : layers - 1;
        const std::size_t left = room_ - many * high.kept - (layers - 1 - many) * low.kept;
        const auto last = std::find_if(front_.rbegin(), front_.rend(),
                                       [left](const LayerOption& option) { return option.kept <= left; });
        if (last == front_.rend()) continue;
        best = std::min(best, static_cast<double>(many) * high.seconds +
                                  static_cast<double>(layers - 1 - many) * low.seconds + last->seconds);
      }
    return best;
  }

  void extend(std::int64_t layers_left, double best) {
    std::vector<State> next;
    const std::vector<State>& now = stages_.back();
    for (std::size_t from = 0; from < now.size(); ++from)
      for (std::size_t option = 0; option < front_.size(); ++option) {
        const State state{now[from].bytes + front_[option].kept, now[from].seconds + front_[option].seconds, option,
                          from};
        if (state.bytes > room_ || bound(state, layers_left) >= best) continue;
        next.push_back(state);
      }
    std::ranges::sort(next, [](const State& a, const State& b) {
      return std::tuple(a.bytes, a.seconds, a.option) < std::tuple(b.bytes, b.seconds, b.option);
    });
    std::vector<State> kept;
    for (const State& state : next)
      if (kept.empty() || state.seconds < kept.back().seconds) kept.push_back(state);
    stages_.push_back(std::move(kept));
  }

  /// No solution from here takes fewer seconds.
  double bound(const State& state, std::int64_t layers_left) const {
    if (layers_left == 0) return state.seconds;
    const auto n = static_cast<double>(layers_left);
    return (state.seconds + n * hull_.at(static_cast<double>(room_ - state.bytes) / n)) * (1 - kTolerance);
  }

  const std::vector<LayerOption> front_;
  const Hull hull_;
  const std::int64_t layers_;
  const std::size_t room_;
  std::vector<std::vector<State>> stages_;
};

/// The bounds that a solution can have, each with the options that stay within it.
template <class Try>
void for_each_bound(const RecomputeProblem& problem, Try attempt) {
  std::vector<std::size_t> bounds = {problem.bound};
  for (const LayerOption& option : problem.options)
    if (option.bound > problem.bound) bounds.push_back(option.bound);
  std::ranges::sort(bounds);
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  for (const std::size_t bound : bounds) {
    std::vector<LayerOption> allowed;
    for (const LayerOption& option : problem.options)
      if (option.bound <= bound) allowed.push_back(option);
    if (!allowed.empty()) attempt(bound, front_of(std::move(allowed)));
  }
}

RecomputeSolution solution_of(const RecomputeProblem& problem, const std::vector<LayerOption>& front,
                              const std::vector<std::size_t>& choice) {
  RecomputeSolution solution{.fits = true, .layers = {}, .seconds = 0, .bytes = problem.fixed};
  std::size_t bound = problem.bound;
  for (const std::size_t place : choice) {
    solution.seconds += front[place].seconds;
    solution.bytes += front[place].kept;
    bound = std::max(bound, front[place].bound);
    solution.layers.push_back(front[place].groups);
  }
  solution.bytes += bound;
  std::ranges::stable_sort(solution.layers, [](graph::Groups a, graph::Groups b) {
    return std::pair(std::popcount(a), a) > std::pair(std::popcount(b), b);
  });
  return solution;
}

}  // namespace

RecomputeSolution solve(const RecomputeProblem& problem) {
  RecomputeSolution best{.fits = false, .layers = {}, .seconds = kNever, .bytes = 0};
  for_each_bound(problem, [&](std::size_t bound, const std::vector<LayerOption>& front) {
    if (problem.fixed + bound > problem.budget) return;
    const std::vector<std::size_t> choice =
        Knapsack(front, problem.layers, problem.budget - problem.fixed - bound).solve(best.seconds);
    if (!choice.empty()) best = solution_of(problem, front, choice);
  });
  return best;
}

RecomputeSolution smallest(const RecomputeProblem& problem) {
  RecomputeSolution best;
  for_each_bound(problem, [&](std::size_t, const std::vector<LayerOption>& front) {
    const RecomputeSolution solution =
        solution_of(problem, front, std::vector<std::size_t>(static_cast<std::size_t>(problem.layers), 0));
    if (!best.fits || solution.bytes < best.bytes) best = solution;
  });
  best.fits = best.fits && best.bytes <= problem.budget;
  return best;
}

}  // namespace llmc::plan
