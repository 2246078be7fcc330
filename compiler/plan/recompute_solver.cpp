#include "compiler/plan/recompute_solver.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

namespace llmc::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The same seconds summed in another order count as the same solution.
constexpr double kTolerance = 1e-12;

/// Returns the options that no other one beats in both bytes and seconds, by bytes; of equals, the one that recomputes
/// least.
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

/// Seconds as a convex, decreasing function of bytes: a lower bound for layers, reached if they could mix fractions of
/// options.
class Hull {
 public:
  /// Hull of no layers.
  Hull() : points_{{0, 0}} {}

  /// Hull of one layer: the lower convex hull of its front.
  explicit Hull(const std::vector<LayerOption>& front) {
    for (const LayerOption& option : front) {
      const Point next{static_cast<double>(option.kept), option.seconds};
      while (points_.size() > 1 && !is_below(points_[points_.size() - 2], points_.back(), next)) points_.pop_back();
      points_.push_back(next);
    }
  }

  /// Adds `many` layers of another hull, by descending savings per byte.
  Hull with(const Hull& other, double many) const {
    Hull sum;
    sum.points_[0] = {points_[0].bytes + many * other.points_[0].bytes,
                      points_[0].seconds + many * other.points_[0].seconds};
    std::vector<Point> steps;
    const auto add_steps = [&steps](const std::vector<Point>& points, double times) {
      for (std::size_t i = 1; i < points.size(); ++i)
        steps.push_back(
            {times * (points[i].bytes - points[i - 1].bytes), times * (points[i].seconds - points[i - 1].seconds)});
    };
    add_steps(points_, 1);
    add_steps(other.points_, many);
    std::ranges::stable_sort(steps,
                             [](const Point& a, const Point& b) { return a.seconds * b.bytes < b.seconds * a.bytes; });
    for (const Point& step : steps)
      sum.points_.push_back({sum.points_.back().bytes + step.bytes, sum.points_.back().seconds + step.seconds});
    return sum;
  }

  /// Infinity if no options are that small.
  double at(double bytes) const {
    if (bytes < points_.front().bytes * (1 - kTolerance)) return kNever;
    const auto above = std::ranges::upper_bound(points_, bytes, {}, &Point::bytes);
    if (above == points_.end()) return points_.back().seconds;
    if (above == points_.begin()) return points_.front().seconds;
    const Point &a = *(above - 1), &b = *above;
    return a.seconds + (b.seconds - a.seconds) * (bytes - a.bytes) / (b.bytes - a.bytes);
  }

 private:
  struct Point {
    double bytes, seconds;
  };
  /// Whether b is below the line from a to c.
  static bool is_below(const Point& a, const Point& b, const Point& c) {
    return (b.seconds - a.seconds) * (c.bytes - a.bytes) < (c.seconds - a.seconds) * (b.bytes - a.bytes);
  }
  std::vector<Point> points_;
};

/// Layers of one kind with their non-dominated options.
struct Front {
  std::int64_t layers = 0;
  std::vector<LayerOption> options;  // by bytes
};

/// A multiple-choice knapsack: one option of its front for each layer, within `room` bytes.
class Knapsack {
 public:
  Knapsack(const std::vector<Front>& fronts, std::size_t room) : fronts_(fronts), room_(room) {
    hulls_.emplace_back();
    for (auto front = fronts_.rbegin(); front != fronts_.rend(); ++front) {
      const Hull rest = hulls_.back(), own(front->options);
      for (std::int64_t n = 1; n <= front->layers; ++n) hulls_.push_back(rest.with(own, static_cast<double>(n)));
    }
  }

  /// Returns, for each kind, the indices into its front of all its layers, last layer first. Empty if the sum of
  /// seconds is not below `best`.
  std::vector<std::vector<std::size_t>> solve(double best) {
    best = std::min(best, rounded() * (1 + kTolerance));
    stages_.assign(1, {State{0, 0, 0, 0}});
    std::size_t left = hulls_.size() - 1;
    for (const Front& front : fronts_)
      for (std::int64_t layer = 0; layer < front.layers; ++layer) extend(front.options, hulls_[--left], best);
    if (stages_.back().empty() || stages_.back().back().seconds >= best) return {};
    std::vector<std::vector<std::size_t>> choice(fronts_.size());
    std::size_t state = stages_.back().size() - 1;  // the last state has the fewest seconds
    std::size_t stage = stages_.size() - 1;
    for (std::size_t kind = fronts_.size(); kind-- > 0;)
      for (std::int64_t layer = fronts_[kind].layers; layer > 0; --layer, --stage) {
        choice[kind].push_back(stages_[stage][state].option);
        state = stages_[stage][state].from;
      }
    return choice;
  }

 private:
  struct State {
    std::size_t bytes;
    double seconds;
    std::size_t option, from;
  };

  /// Returns the seconds of an initial solution. It starts with each kind's smallest options. Then, kind by kind,
  /// layers get one of two options until the room is filled, and the last layer the fastest option that still fits.
  double rounded() const {
    std::size_t least = 0;
    for (const Front& front : fronts_) least += static_cast<std::size_t>(front.layers) * front.options[0].kept;
    if (least > room_) return kNever;
    std::size_t room = room_ - least;
    double seconds = 0;
    for (const Front& front : fronts_) {
      room += static_cast<std::size_t>(front.layers) * front.options[0].kept;
      const Filled filled = fill(front, room);
      seconds += filled.seconds;
      room -= filled.bytes;
    }
    return seconds;
  }

  struct Filled {
    double seconds = kNever;
    std::size_t bytes = 0;
  };

  static Filled fill(const Front& front, std::size_t room) {
    const auto layers = static_cast<std::size_t>(front.layers);
    Filled best;
    for (const LayerOption& low : front.options)
      for (const LayerOption& high : front.options) {
        if (low.kept * layers > room || high.kept < low.kept) continue;
        const std::size_t step = high.kept - low.kept, more = room - low.kept * layers;
        const std::size_t many = step ? std::min(layers - 1, more / step) : layers - 1;
        const std::size_t others = many * high.kept + (layers - 1 - many) * low.kept;
        const auto last = std::find_if(front.options.rbegin(), front.options.rend(),
                                       [&](const LayerOption& option) { return option.kept <= room - others; });
        if (last == front.options.rend()) continue;
        const double seconds = static_cast<double>(many) * high.seconds +
                               static_cast<double>(layers - 1 - many) * low.seconds + last->seconds;
        if (seconds < best.seconds) best = {seconds, others + last->kept};
      }
    return best;
  }

  /// Adds one layer. `rest`: hull of the layers after it.
  void extend(const std::vector<LayerOption>& options, const Hull& rest, double best) {
    std::vector<State> next;
    const std::vector<State>& now = stages_.back();
    for (std::size_t from = 0; from < now.size(); ++from)
      for (std::size_t option = 0; option < options.size(); ++option) {
        const State state{now[from].bytes + options[option].kept, now[from].seconds + options[option].seconds, option,
                          from};
        if (state.bytes > room_ || bound(state, rest) >= best) continue;
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

  /// Lower bound for the seconds of any solution from this state.
  double bound(const State& state, const Hull& rest) const {
    return (state.seconds + rest.at(static_cast<double>(room_ - state.bytes))) * (1 - kTolerance);
  }

  const std::vector<Front>& fronts_;
  const std::size_t room_;
  std::vector<Hull> hulls_;  // of the last 0, 1, ... layers
  std::vector<std::vector<State>> stages_;
};

/// Calls `attempt` for each bound that a solution can have, with the options that stay within it.
template <class Try>
void for_each_bound(const RecomputeProblem& problem, Try attempt) {
  std::vector<std::size_t> bounds = {problem.bound};
  for (const KindOfLayers& kind : problem.kinds)
    for (const LayerOption& option : kind.options)
      if (option.bound > problem.bound) bounds.push_back(option.bound);
  std::ranges::sort(bounds);
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  for (const std::size_t bound : bounds) {
    std::vector<Front> fronts;
    for (const KindOfLayers& kind : problem.kinds) {
      std::vector<LayerOption> allowed;
      for (const LayerOption& option : kind.options)
        if (option.bound <= bound) allowed.push_back(option);
      if (!allowed.empty()) fronts.push_back({kind.layers, front_of(std::move(allowed))});
    }
    if (fronts.size() == problem.kinds.size()) attempt(bound, fronts);
  }
}

/// `choice`: for each kind, the indices into its front of its layers.
RecomputeSolution solution_of(const RecomputeProblem& problem, const std::vector<Front>& fronts,
                              const std::vector<std::vector<std::size_t>>& choice) {
  RecomputeSolution solution{.fits = true, .layers = {}, .seconds = 0, .bytes = problem.fixed};
  std::size_t bound = problem.bound;
  for (std::size_t kind = 0; kind < fronts.size(); ++kind) {
    std::vector<graph::RecomputeGroups>& layers = solution.layers.emplace_back();
    for (const std::size_t place : choice[kind]) {
      const LayerOption& option = fronts[kind].options[place];
      solution.seconds += option.seconds;
      solution.bytes += option.kept;
      bound = std::max(bound, option.bound);
      layers.push_back(option.groups);
    }
    std::ranges::stable_sort(layers, [](graph::RecomputeGroups a, graph::RecomputeGroups b) {
      return std::pair(std::popcount(a), a) > std::pair(std::popcount(b), b);
    });
  }
  solution.bytes += bound;
  return solution;
}

/// The knapsack of a bound.
struct Attempt {
  std::vector<Front> fronts;
  std::size_t room = 0;
  double least_seconds = 0;  // of layers that could mix fractions of options
};

/// Returns the attempts that have a solution, by the least seconds of each.
std::vector<Attempt> attempts_at(const RecomputeProblem& problem) {
  std::vector<Attempt> attempts;
  for_each_bound(problem, [&](std::size_t bound, const std::vector<Front>& fronts) {
    if (problem.fixed + bound > problem.budget) return;
    Hull all;
    for (const Front& front : fronts) all = all.with(Hull(front.options), static_cast<double>(front.layers));
    const std::size_t room = problem.budget - problem.fixed - bound;
    const double least = all.at(static_cast<double>(room)) * (1 - kTolerance);
    if (least < kNever) attempts.push_back({fronts, room, least});
  });
  std::ranges::stable_sort(attempts, {}, &Attempt::least_seconds);
  return attempts;
}

}  // namespace

RecomputeSolution solve(const RecomputeProblem& problem) {
  RecomputeSolution best{.fits = false, .layers = {}, .seconds = kNever, .bytes = 0};
  // The most promising bound first: its solution excludes most of the others.
  for (const Attempt& attempt : attempts_at(problem)) {
    if (attempt.least_seconds >= best.seconds) break;
    const auto choice = Knapsack(attempt.fronts, attempt.room).solve(best.seconds);
    if (!choice.empty()) best = solution_of(problem, attempt.fronts, choice);
  }
  return best;
}

double least_seconds(const RecomputeProblem& problem) {
  const std::vector<Attempt> attempts = attempts_at(problem);
  return attempts.empty() ? kNever : attempts.front().least_seconds;
}

RecomputeSolution smallest(const RecomputeProblem& problem) {
  RecomputeSolution best;
  for_each_bound(problem, [&](std::size_t, const std::vector<Front>& fronts) {
    std::vector<std::vector<std::size_t>> choice;
    for (const Front& front : fronts) choice.emplace_back(static_cast<std::size_t>(front.layers), 0);
    const RecomputeSolution solution = solution_of(problem, fronts, choice);
    if (!best.fits || solution.bytes < best.bytes) best = solution;
  });
  best.fits = best.fits && best.bytes <= problem.budget;
  return best;
}

}  // namespace llmc::plan
