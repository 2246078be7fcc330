#include "trainer/startup/phase.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "error.h"
#include "files/disk.h"
#include "host/executable.h"
#include "run/history.h"
#include "run/run_folder.h"
#include "spec/values.h"
#include "text/message.h"
#include "text/printable.h"
#include "text/shell.h"
#include "trainer/startup/resume_guard.h"
#include "trainer/startup/resume_line.h"
#include "trainer/startup/resume_point.h"

namespace llmc {

namespace {

/// Path of a phase's trainer: the folders of all trainers are next to each other, named after their first phase.
std::filesystem::path trainer_of(int number, const PhaseInfo& phase) {
  return executable_folder().parent_path() / fmt::format("phase-{}", phase.trainer_of(number)) / "trainer";
}

/// Of a run with phases: "12, 24; trainers 1, 2".
std::string text_of(const PhaseInfo& phase) {
  return fmt::format("{}; trainers {}", fmt::join(phase.ends, ", "), fmt::join(phase.trainers, ", "));
}

spec::Spec values_in(const std::string& spec_yaml) { return spec::read_values(spec_yaml, "spec.yaml").spec; }

/// Step at which a start resumes from `from`.
std::int64_t step_of(const std::optional<StartPoint>& from) {
  return from ? read_train_state(from->checkpoint).step : 0;
}

std::optional<StartPoint> point_of_run(const Options& options) {
  return find_start(options.run, options.resume, {}, Depth::sizes);
}

/// Phase of the step before a checkpoint of `step`, by the history of its folder; 0: unknown. A start that took the
/// values of another phase there and was killed before its first save does not count.
int noted_phase(const std::optional<StartPoint>& from, std::int64_t step) {
  if (!from) return 0;
  const std::filesystem::path checkpoint = disk::absolute(from->checkpoint, Exit::checkpoint).lexically_normal();
  return phase_in_history(RunFolder::history(checkpoint.parent_path().parent_path()), step - 1);
}

/// Start with `options` from `from`.
PhaseStart phase_at(const Options& options, const TrainerPhases& phases, const std::optional<StartPoint>& from) {
  PhaseStart start{options, 1, step_of(from), options};
  const PhaseInfo& phase = phases.first().phase;
  if (phase.count == 1) return start;
  start.number = phase_after(start.step, phase);
  const bool begins = start.number > 1 && start.step == phase.first_of(start.number);
  const int noted = noted_phase(from, start.step);
  start.moved = noted > 0 && noted != start.number && !(begins && noted == start.number - 1);
  for (int number = 2; number <= phase.count; ++number)
    if (start.moved || (begins && number == start.number))
      start.options = options_at_border(std::move(start.options), phases.in(number).phase);
  // A start without a step to train takes no values.
  if (options.steps && *options.steps <= start.step) start.options.followed.clear();
  return start;
}

}  // namespace

TrainerPhases::TrainerPhases(const ProgramInfo& info) : info_(info) {
  if (!info.phases_json) return;
  for (const auto& phase : nlohmann::json::parse(info.phases_json)) {
    texts_.push_back({phase.at("number"),
                      phase.at("changed"),
                      {},
                      phase.at("plan_text"),
                      phase.at("plan_json"),
                      phase.at("spec_yaml")});
  }
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    Texts& own = texts_[i];
    if (i > 0)
      for (const spec::Change& change : spec::changes(values_in(texts_[i - 1].spec_yaml), values_in(own.spec_yaml)))
        own.changed.push_back(change.path);
    for (const std::string& key : own.changed) own.changed_keys.push_back(key.c_str());
  }
}

bool TrainerPhases::has(int number) const {
  const PhaseInfo& phase = info_.phase;
  return phase.count == 1 || phase.trainer_of(number) == phase.trainer_of(phase.number);
}

ProgramInfo TrainerPhases::in(int number) const {
  ProgramInfo info = info_;
  for (const Texts& own : texts_) {
    if (own.number != number) continue;
    info.phase.number = number;
    info.phase.changed = own.changed_keys;
    info.plan_text = own.plan_text.c_str();
    info.plan_json = own.plan_json.c_str();
    info.spec_yaml = own.spec_yaml.c_str();
  }
  return info;
}

int phase_of_plan(const Options& options, const TrainerPhases& phases) {
  const PhaseInfo& phase = phases.first().phase;
  for (const std::string& word : options.overrides) {
    if (!word.starts_with(kPhaseWord)) continue;
    const std::string number = word.substr(kPhaseWord.size());
    if (phase.count == 1)
      throw Failure(Exit::usage,
                    fmt::format("{} selects one of a run's phases, and this one has none. Leave it out", word));
    for (int of = 1; of <= phase.count; ++of) {
      if (std::to_string(of) != number) continue;
      if (phases.has(of)) return of;
      throw Failure(Exit::usage, fmt::format("phase {} is of another trainer. Use {} --plan", of,
                                             shell_word(trainer_of(of, phase).string())));
    }
    throw Failure(Exit::usage, fmt::format("there is no phase '{}'. The run has phases 1 to {}", number, phase.count));
  }
  if (!phase.shares_trainer()) return phase.number;
  try {
    const int next = phase_after(step_of(point_of_run(options)), phase);
    return phases.has(next) ? next : phase.number;
  } catch (const Failure&) {  // a run that cannot be resumed has no next step
    return phase.number;
  }
}

Options options_at_border(Options options, const PhaseInfo& phase) {
  for (const char* key : phase.changed) {
    options.followed.emplace_back(key);
    if (is_guarded(key)) options.allow.emplace_back(key);
  }
  return options;
}

Options options_at_any_border(Options options, const TrainerPhases& phases) {
  for (int number = 1; number <= phases.first().phase.count; ++number)
    if (phases.has(number)) options = options_at_border(std::move(options), phases.in(number).phase);
  return options;
}

PhaseStart find_phase(const Options& options, const TrainerPhases& phases) {
  if (phases.first().phase.count == 1) return phase_at(options, phases, {});
  for (const char* key : {"schedule.steps", "schedule.tokens"})
    if (overrides(options, key))
      throw Failure(Exit::usage, fmt::format("{} is compiled in, because the phases of this run end at steps. Leave it "
                                             "out, or compile the spec with it",
                                             key));
  return phase_at(options, phases, point_of_run(options));
}

PhaseStart phase_again(const PhaseStart& found, const TrainerPhases& phases, const std::optional<StartPoint>& from) {
  PhaseStart start = phase_at(found.asked, phases, from);
  if (phases.has(start.number)) return start;
  const std::int64_t step = start.step;
  if (step > found.step)
    throw Failure(Exit::checkpoint, fmt::format("another trainer has saved step {} while this one started. Start it "
                                                "again, once that one has ended",
                                                step));
  throw Failure(Exit::checkpoint,
                fmt::format("the newest checkpoint that is whole is of step {}, in phase {}, but a damaged one is "
                            "newer. Remove the damaged one, and start the trainer of phase {}",
                            step, start.number, start.number));
}

std::int64_t stop_in_phase(const ProgramInfo& info, std::int64_t last_step) {
  const PhaseInfo& phase = info.phase;
  return phase.count == 1 ? last_step : std::min(last_step, phase.end_of(phase.last_here()));
}

std::vector<std::int64_t> kept_borders(const PhaseInfo& phase) {
  std::vector<std::int64_t> steps;
  for (int number = 1; number < phase.count; ++number)
    if (phase.trainer_of(number) != phase.trainer_of(number + 1)) steps.push_back(phase.end_of(number));
  return steps;
}

PhaseStart options_for_batches(const Options& options, const TrainerPhases& phases) {
  const std::int64_t end = options.batches->first + options.batches->count;
  const PhaseInfo& phase = phases.first().phase;
  PhaseStart start = find_phase(options, phases);
  if (phase.count == 1) return start;
  const int number = phase_after(end - 1, phase);
  const bool here = phases.has(start.number);
  if (number > start.number && here && !phases.has(number))
    throw Failure(Exit::usage, fmt::format("--batches names step {}, which is of phase {}, and this is the trainer of "
                                           "phase {}, up to step {}. Use {}",
                                           end, number, start.number, phase.end_of(start.number),
                                           shell_word(trainer_of(number, phase).string())));
  if (number > start.number)
    throw Failure(Exit::usage,
                  fmt::format("--batches names step {}, and the run is at step {}, in phase {}. The samples "
                              "of phase {} are known when phase {} is done",
                              end, start.step, start.number, number, number - 1));
  if (!here)
    throw Failure(Exit::usage, fmt::format("the run is at step {}, in phase {}. Use {}", start.step, start.number,
                                           shell_word(trainer_of(start.number, phase).string())));
  return start;
}

bool is_at_border(const Options& options, const ProgramInfo& info) {
  const PhaseInfo& phase = info.phase;
  if (phase.last_here() == phase.count) return false;
  const std::vector<CheckpointEntry> checkpoints = list_checkpoints(options.run);
  return !checkpoints.empty() && checkpoints.back().step == phase.end_of(phase.last_here()) &&
         has_manifest(checkpoints.back().path);
}

void check_same_phases(const PhaseInfo& phase) {
  const char* before = std::getenv(kPhasesVariable);
  if (!before || std::string_view(before).find(';') == std::string_view::npos || before == text_of(phase)) return;
  throw Failure(Exit::usage, fmt::format("this trainer, {}, was compiled with phases that end at steps {}, and the "
                                         "trainer that started it with phases that end at steps {}. Compile all phases "
                                         "again with `llmc compile SPEC`",
                                         trainer_of(phase.number, phase).string(), text_of(phase), before));
}

int leave_to(const PhaseStart& to, const ProgramInfo& info, const LauncherInfo& launch,
             std::vector<std::string> words) {
  const PhaseInfo& phase = info.phase;
  words[0] = trainer_of(to.number, phase).string();
  if (launch.world_size == 1 && std::getenv(kPhasesVariable) && to.options.deadline == 0) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    setenv(kPhasesVariable, text_of(phase).c_str(), 1);
    execv(argv[0], argv.data());
    throw Failure(Exit::toolchain, fmt::format("cannot start the trainer of phase {}, '{}': {}. Compile the spec again",
                                               to.number, words[0], std::strerror(errno)));
  }
  const std::string line = shell_line(words);
  if (to.number < phase.number)
    throw Failure(Exit::usage, fmt::format("the run is at step {}, which is of phase {}, and this is the trainer of "
                                           "phase {}. Start\n  {}",
                                           to.step, to.number, phase.number, line));
  if (launch.rank == 0 && !std::getenv(kStarterVariable))
    to_stderr("the run is at step {} and phase {} of {} is done, everything is saved. Start phase {} with\n  {}\n",
              to.step, phase.number, phase.count, to.number, printable_text(line));
  return static_cast<int>(Exit::resume_me);
}

std::vector<std::string> words_for_next(const std::vector<std::string>& argv) {
  constexpr std::array kOfThisPhase = {"--timing", "--trace"};
  return words_without(words_to_go_on(argv), kOfThisPhase);
}

}  // namespace llmc
