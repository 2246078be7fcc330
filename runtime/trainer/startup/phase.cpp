#include "trainer/startup/phase.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "error.h"
#include "host/executable.h"
#include "text/message.h"
#include "text/printable.h"
#include "text/shell.h"
#include "trainer/startup/resume_guard.h"
#include "trainer/startup/resume_line.h"
#include "trainer/startup/resume_point.h"

namespace llmc {

namespace {

int phase_of(std::int64_t step, const PhaseInfo& phase) {
  return 1 +
         static_cast<int>(std::ranges::count_if(phase.borders, [step](std::int64_t border) { return border <= step; }));
}

/// Path of another phase's trainer: the folders of all phases are next to each other.
std::filesystem::path trainer_of(int number) {
  return executable_folder().parent_path() / fmt::format("phase-{}", number) / "trainer";
}

}  // namespace

PhaseStart find_phase(const Options& options, const ProgramInfo& info) {
  PhaseStart found{options, 1, 0};
  const PhaseInfo& phase = info.phase;
  if (phase.count == 1) return found;
  for (const char* key : {"schedule.steps", "schedule.tokens"})
    if (overrides(options, key))
      throw Failure(Exit::usage, fmt::format("{} is compiled in, because the phases of this run end at steps. Leave it "
                                             "out, or compile the spec with it",
                                             key));
  if (const auto start = find_start(options.run, options.resume, {}, Depth::sizes))
    found.step = read_train_state(start->checkpoint).step;
  found.number = phase_of(found.step, phase);
  if (found.number == phase.number && phase.number > 1 && found.step == phase.first) {
    found.options.follow_spec = true;
    for (const char* key : phase.changed)
      if (is_guarded(key)) found.options.allow.emplace_back(key);
  }
  return found;
}

std::int64_t stop_in_phase(const ProgramInfo& info, std::int64_t last_step) {
  return info.phase.count == 1 ? last_step : std::min(last_step, info.phase.last);
}

void check_phase(const ProgramInfo& info, std::int64_t step) {
  const PhaseInfo& phase = info.phase;
  if (phase.count == 1 || phase_of(step, phase) == phase.number) return;
  throw Failure(
      Exit::checkpoint,
      fmt::format("the newest checkpoint that is whole is of step {}, in phase {}, but a damaged one is newer. "
                  "Remove the damaged one, and start the trainer of phase {}",
                  step, phase_of(step, phase), phase_of(step, phase)));
}

Options options_for_batches(const Options& options, const ProgramInfo& info) {
  const PhaseInfo& phase = info.phase;
  const std::int64_t end = options.batches->first + options.batches->count;
  if (!phase.is_last() && end > phase.last) {
    const int number = phase_of(end - 1, phase);
    throw Failure(Exit::usage,
                  fmt::format("--batches names step {}, which is of phase {}, and this is the trainer of "
                              "phase {}, up to step {}. Use {}",
                              end, number, phase.number, phase.last, shell_word(trainer_of(number).string())));
  }
  const PhaseStart start = find_phase(options, info);
  if (start.step < phase.first && end > start.step)
    throw Failure(Exit::usage,
                  fmt::format("--batches names step {}, and the run is at step {}, in phase {}. The samples "
                              "of phase {} are known when phase {} is done",
                              end, start.step, start.number, phase.number, phase.number - 1));
  return start.options;
}

bool is_at_border(const Options& options, const ProgramInfo& info) {
  if (info.phase.is_last()) return false;
  const std::vector<CheckpointEntry> checkpoints = list_checkpoints(options.run);
  return !checkpoints.empty() && checkpoints.back().step == info.phase.last && has_manifest(checkpoints.back().path);
}

int leave_to(const PhaseStart& to, const ProgramInfo& info, const LauncherInfo& launch,
             std::vector<std::string> words) {
  const PhaseInfo& phase = info.phase;
  words[0] = trainer_of(to.number).string();
  if (launch.world_size == 1 && std::getenv(kPhasesVariable) && to.options.deadline == 0) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
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
  std::vector<std::string> kept;
  const std::vector<std::string> words = words_to_go_on(argv);
  constexpr std::array kOfThisPhase = {"--profile", "--timeline", "--timeline-steps", "--timing", "--trace"};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    if (std::ranges::count(kOfThisPhase, name) == 0)
      kept.push_back(words[i]);
    else if (name == words[i])
      ++i;  // and its value
  }
  return kept;
}

}  // namespace llmc
