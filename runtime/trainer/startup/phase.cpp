#include "trainer/startup/phase.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
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

bool is_at_border(const Options& options, const ProgramInfo& info) {
  if (info.phase.is_last()) return false;
  const std::vector<CheckpointEntry> checkpoints = list_checkpoints(options.run);
  return !checkpoints.empty() && checkpoints.back().step == info.phase.last && has_manifest(checkpoints.back().path);
}

int leave_to(int number, std::int64_t step, const ProgramInfo& info, const LauncherInfo& launch,
             const std::vector<std::string>& argv) {
  const PhaseInfo& phase = info.phase;
  std::vector<std::string> line = argv;
  line[0] = trainer_of(number).string();
  if (launch.world_size == 1 && std::getenv(kPhasesVariable)) {
    std::vector<char*> words;
    for (std::string& word : line) words.push_back(word.data());
    words.push_back(nullptr);
    execv(words[0], words.data());
    throw Failure(Exit::toolchain, fmt::format("cannot start the trainer of phase {}, '{}': {}. Compile the spec again",
                                               number, line[0], std::strerror(errno)));
  }
  std::vector<std::string> next = words_to_go_on({line.begin() + 1, line.end()});
  next.insert(next.begin(), line[0]);
  if (number < phase.number)
    throw Failure(Exit::usage,
                  fmt::format("the run is at step {}, which is of phase {}, and this is the trainer of phase {}. "
                              "Start\n  {}",
                              step, number, phase.number, shell_line(next)));
  if (launch.rank == 0 && !std::getenv(kStarterVariable))
    to_stderr("the run is at step {} and phase {} of {} is done, everything is saved. Start phase {} with\n  {}\n",
              step, phase.number, phase.count, number, printable_text(shell_line(next)));
  return static_cast<int>(Exit::resume_me);
}

}  // namespace llmc
