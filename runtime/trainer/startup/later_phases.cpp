#include "trainer/startup/later_phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "data/order/forecast.h"
#include "data/order/mixture_walk.h"
#include "spec/training_sources.h"
#include "trainer/startup/missing_paths.h"

namespace llmc {

namespace {

/// Gives sources that were not identified the fingerprint of the same path, or the path in place of one.
void label(PhaseAhead& phase, std::map<std::string, std::string>& known) {
  for (const spec::MixedSource& source : spec::training_sources(phase.values.data)) {
    const auto opened = std::ranges::find(phase.sources, source.name, &Source::name);
    if (opened == phase.sources.end()) continue;
    const std::string& path = source.source.path;
    opened->data = known.try_emplace(path, opened->data.empty() ? "path " + path : opened->data).first->second;
  }
}

/// Identity of all data, as PositionIn has it: of a run without names that of the source.
std::string data_of(const Sources& sources) { return sources.front().data; }

}  // namespace

void check_epochs_ahead(std::vector<PhaseAhead> phases, const std::optional<DataPosition>& start, std::int64_t done) {
  DataPosition position;
  std::map<std::string, std::string> known;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    PhaseAhead& phase = phases[i];
    label(phase, known);
    const Sources& sources = phase.sources;
    const std::int64_t length = phase.values.batch.sequence_length;
    if (i == 0) {
      position = start ? *start : beginning(sources);
    } else {
      const bool same_order = phases[i - 1].values.data.seed == phase.values.data.seed;
      const DataPosition begun = beginning(sources);
      const std::string now = data_of(sources), before = data_of(phases[i - 1].sources);
      position = continue_in({begun, now}, {position, before}, same_order);
    }
    position = continue_with(position, length);
    const RunLength run{done, phase.stop, phase.values.batch.tokens / length, length, true};
    check_most_epochs(sources, position, run);
    MixtureWalk walk(sources, phase.values.data.seed, length, position);
    walk.pass_over(static_cast<std::uint64_t>((run.stop - run.done) * run.sequences));
    position = walk.position();
    done = phase.stop;
  }
}

void check_epochs_ahead(const Options& options, const TrainerPhases& phases, const ProgramInfo& now,
                        const StartValues& values, const Sources& sources, const std::optional<DataPosition>& start,
                        std::int64_t done) {
  const PhaseInfo& phase = now.phase;
  const std::int64_t stop = std::min(options.steps.value_or(phase.ends.back()), phase.ends.back());
  std::vector<PhaseAhead> ahead = {{values.run.spec, sources, std::min(stop, phase.last())}};
  StartValues values_there = values;
  for (int number = phase.number + 1; number <= phase.count && phase.first_of(number) < stop; ++number) {
    values_there = values_of_phase(options, phases.in(number), values_there);
    const spec::Spec& later = values_there.run.spec;
    const auto is_data = [](const MissingPath& path) { return path.key.starts_with("data.train"); };
    if (std::ranges::any_of(missing_paths(later, {}), is_data)) break;
    Sources of_later = open_sources(later.data, 0);
    if (!sources.front().data.empty()) identify(of_later);  // as those of `start` are
    ahead.push_back({later, std::move(of_later), std::min(stop, phase.end_of(number))});
  }
  check_epochs_ahead(std::move(ahead), start, done);
}

std::int64_t tokens_ahead(const Options& options, const TrainerPhases& phases, const ProgramInfo& now,
                          const StartValues& values, std::int64_t done, std::int64_t stop) {
  const PhaseInfo& phase = now.phase;
  if (phase.count == 1) return (stop - done) * values.run.spec.batch.tokens;
  StartValues values_there = values;
  std::int64_t tokens = 0;
  for (int number = phase.number; number <= phase.count && phase.first_of(number) < stop; ++number) {
    if (number > phase.number) values_there = values_of_phase(options, phases.in(number), values_there);
    const std::int64_t first = std::max(done, phase.first_of(number)), last = std::min(stop, phase.end_of(number));
    tokens += std::max<std::int64_t>(last - first, 0) * values_there.run.spec.batch.tokens;
  }
  return tokens;
}

Rendezvous::Facts check_later_phases(const Options& options, const TrainerPhases& phases, const ProgramInfo& info,
                                     const Prepared& prepared, int ranks) {
  Rendezvous::Facts alike;
  if (info.phase.count == 1) return alike;
  StartValues values = prepared.values;
  for (int number = info.phase.number + 1; number <= info.phase.last_here(); ++number) {
    const ProgramInfo later = phases.in(number);
    if (later.phase.first() >= prepared.stop) break;
    values = values_of_phase(options, later, values);
    check_paths(options, values, false);
    Inputs inputs = open_inputs(values.run.spec, later);
    check_work(later, values.run.spec, ranks);
    if (ranks == 1) continue;
    for (const auto& [name, value] : facts_of(values.run.spec, inputs, identify(inputs.train).fingerprint))
      alike.emplace_back(fmt::format("{} of phase {}", name, number), value);
  }
  if (prepared.state.step < prepared.stop)
    check_epochs_ahead(options, phases, info, prepared.values, prepared.inputs.train, prepared.state.position,
                       prepared.state.step);
  return alike;
}

}  // namespace llmc
