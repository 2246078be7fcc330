#include "data/order/forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/order/mixture.h"
#include "error.h"
#include "text/plural.h"

namespace llmc {

namespace {

/// Samples of each source at the start of a run, and those that its first samples will draw.
class Draws {
 public:
  Draws(const Sources& sources, const DataPosition& start, std::int64_t sequence_length)
      : mixture_(weights_of(sources)), drawn_(start.drawn) {
    for (const Source& source : sources) {
      const auto record = std::ranges::find(start.sources, source.name, &SourcePosition::name);
      const std::int64_t samples = source.shards->samples(sequence_length);
      const double epochs =
          record == start.sources.end()
              ? 0
              : epochs_of(record->progress, static_cast<double>(samples) * static_cast<double>(sequence_length));
      sizes_.push_back(static_cast<double>(samples));
      before_.push_back(epochs * static_cast<double>(samples));
    }
  }

  double size(std::size_t source) const { return sizes_[source]; }
  double before(std::size_t source) const { return before_[source]; }
  /// Samples of the source among the next `count` of the run.
  std::uint64_t of_next(std::size_t source, std::uint64_t count) const {
    return mixture_.count_of(source, drawn_ + count) - mixture_.count_of(source, drawn_);
  }
  /// Passes over the source after the next `count` samples.
  double epochs_after(std::size_t source, std::uint64_t count) const {
    return (before_[source] + static_cast<double>(of_next(source, count))) / sizes_[source];
  }

 private:
  Mixture mixture_;
  std::uint64_t drawn_;
  std::vector<double> sizes_, before_;
};

std::uint64_t samples_between(const RunLength& run, std::int64_t step) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(step - run.done, 0)) *
         static_cast<std::uint64_t>(run.sequences);
}

}  // namespace

std::vector<SourceForecast> forecast(const Sources& sources, const DataPosition& start, const RunLength& run) {
  const Draws draws(sources, start, run.sequence_length);
  const std::uint64_t rest = samples_between(run, run.stop);
  double weights = 0, all = static_cast<double>(rest);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    weights += sources[i].weight;
    all += draws.before(i);
  }
  std::vector<SourceForecast> forecasts;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    SourceForecast& of = forecasts.emplace_back();
    of.name = sources[i].name;
    of.share = sources[i].weight / weights;
    of.samples = static_cast<std::int64_t>(draws.size(i));
    of.lasts = draws.size(i) / of.share / static_cast<double>(run.sequences);
    of.epochs = draws.epochs_after(i, rest);
    of.repeats = all > 0 ? std::max(of.epochs - 1, 0.0) * draws.size(i) / all : 0;
  }
  return forecasts;
}

std::string forecast_text(const SourceForecast& source) {
  return fmt::format("{}: {:.1f} % of the samples, lasts {:.4g} step{}; {:.2f} epochs, {:.1f} % of the run repeats it",
                     source.name, 100 * source.share, source.lasts, source.lasts == 1 ? "" : "s", source.epochs,
                     100 * source.repeats);
}

std::vector<std::string> never_drawn(const Sources& sources) {
  const Mixture mixture(weights_of(sources));
  std::vector<std::string> warnings;
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (mixture.count_of(i, mixture.period()) == 0)
      warnings.push_back(
          fmt::format("data.train.{}.weight is less than a 2^20th of all weights, so no sample of the source is drawn. "
                      "Write a larger weight, or leave the source out",
                      sources[i].name));
  return warnings;
}

void check_most_epochs(const Sources& sources, const DataPosition& start, const RunLength& run) {
  const Draws draws(sources, start, run.sequence_length);
  const auto epochs_at = [&](std::size_t source, std::int64_t step) {
    return draws.epochs_after(source, samples_between(run, step));
  };
  std::int64_t fit = run.stop;
  std::size_t tightest = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const double most = sources[i].most_epochs;
    if (most == 0 || run.stop <= run.done || epochs_at(i, fit) <= most) continue;
    std::int64_t good = run.done, bad = fit;
    while (bad - good > 1) {
      const std::int64_t middle = good + (bad - good) / 2;
      (epochs_at(i, middle) <= most ? good : bad) = middle;
    }
    fit = good;
    tightest = i;
  }
  if (fit >= run.stop) return;
  const std::string key = "data.train." + sources[tightest].name;
  std::string remedy;
  if (run.fixed && fit > 0)  // the steps before `done` may be ahead too
    remedy = fmt::format("--steps {}, ", fit);
  else if (fit > run.done)
    remedy = fmt::format("schedule.steps={0} (or --steps {0}), ", fit);
  throw Failure(
      Exit::data,
      fmt::format("{0} would be passed {1:.2f} times in {2} step{3}, more than its most_epochs {4:g}: at most "
                  "{5} step{6} fit{7}. Write {8}a smaller {0}.weight, a larger {0}.most_epochs, or give it "
                  "more data",
                  key, epochs_at(tightest, run.stop), run.stop, plural(run.stop), sources[tightest].most_epochs, fit,
                  plural(fit), fit == 1 ? "s" : "", remedy));
}

}  // namespace llmc
