#include "compiler/cli/trainers.h"

#include <fmt/format.h>

#include <algorithm>

namespace llmc::cli {

SelectedPhases load_selected(const SpecArguments& arguments, bool tell) {
  SelectedPhases phases{{}, 0, arguments.overrides};
  const std::string word = take_phase(phases.overrides);
  phases.all = load_phases({arguments.file, phases.overrides}, tell);
  if (word.empty()) return phases;
  for (const spec::Resolved& phase : phases.all)
    if (phase.spec.phase.count > 1 && std::to_string(phase.spec.phase.number) == word)
      phases.selected = phase.spec.phase.number;
  if (phases.selected == 0)
    refuse_phase(word, arguments.file, phases.all.front().spec.phase.count > 1 ? phases.all.size() : 0);
  return phases;
}

std::vector<Planned> plan_phases(std::vector<spec::Resolved> phases, bool here) {
  std::vector<Planned> planned;
  for (spec::Resolved& phase : phases) planned.push_back(plan_loaded(std::move(phase), here));
  if (planned.front().plan.spec.phase.count == 1) return planned;
  std::vector<int> trainers;
  for (const Planned& phase : planned) {
    const auto alike = std::ranges::find_if(
        planned, [&](const Planned& other) { return other.plan.fingerprint == phase.plan.fingerprint; });
    trainers.push_back(alike->plan.spec.phase.number);
  }
  std::vector<emit::PhaseOfRun> list;
  for (const Planned& phase : planned) list.push_back({phase.plan.spec.phase, phase.texts});
  const std::string json = emit::phases_json(list);
  for (Planned& phase : planned) {
    phase.plan.spec.phase.trainers = trainers;
    phase.texts.phases_json = json;
  }
  return planned;
}

std::vector<Planned> trainers_of(const std::vector<Planned>& phases, int selected) {
  std::vector<Planned> trainers;
  for (const Planned& first : phases) {
    const spec::Phase& of_first = first.plan.spec.phase;
    const auto trainer_of = [&](int number) { return of_first.trainers[static_cast<std::size_t>(number) - 1]; };
    if (of_first.count == 1) return {first};
    if (trainer_of(of_first.number) != of_first.number) continue;
    if (selected && trainer_of(selected) != of_first.number) continue;
    Planned& trainer = trainers.emplace_back(first);
    for (const Planned& phase : phases)
      if (trainer_of(phase.plan.spec.phase.number) == of_first.number)
        trainer.plan.process_bytes = std::max(trainer.plan.process_bytes, phase.plan.process_bytes);
  }
  return trainers;
}

Planned only_trainer(std::vector<Planned> trainers, const std::string& file) {
  if (trainers.size() > 1)
    throw Failure(Exit::usage,
                  fmt::format("'{}' has {} phases with {} trainers. Select one with phase=1, or another "
                              "number",
                              spec::printable(file), trainers.front().plan.spec.phase.count, trainers.size()));
  return std::move(trainers.front());
}

}  // namespace llmc::cli
