#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/collectives.h"
#include "comm/launcher.h"
#include "comm/rendezvous.h"
#include "comm/spawn.h"
#include "comm/together.h"
#include "error.h"
#include "files/disk.h"
#include "host/executable.h"
#include "host/standard_streams.h"
#include "host/thread_limit.h"
#include "program/compiled_spec.h"
#include "program/program.h"
#include "spec/values.h"
#include "step/fits.h"
#include "text/message.h"
#include "text/printable.h"
#include "train/signals.h"
#include "trainer/commands/batches.h"
#include "trainer/commands/tune.h"
#include "trainer/options.h"
#include "trainer/startup/phase.h"
#include "trainer/startup/prepare.h"
#include "trainer/startup/resume_line.h"
#include "trainer/startup/values.h"
#include "trainer/train.h"

namespace llmc {
namespace {

void print_error(const char* text) {
  const bool colour = colour_on(STDERR_FILENO);
  std::fprintf(stderr, "%serror:%s %s\n", colour ? "\033[1;31m" : "", colour ? "\033[0m" : "",
               printable_text(text).c_str());
}

/// Command line for each rank: the same without --ranks.
std::vector<std::string> words_of_a_rank(int argc, char** argv) {
  std::vector<std::string> words = {disk::canonical("/proc/self/exe", Exit::toolchain).string()};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--ranks")
      ++i;
    else if (!word.starts_with("--ranks="))
      words.push_back(word);
  }
  return words;
}

LauncherInfo launch_of_this_process() {
  return find_launcher([](const char* name) -> const char* { return std::getenv(name); });
}

/// How an exception ends the trainer.
struct Ending {
  Exit code;
  std::string message;
};

Ending ending_of(const std::exception& error) {
  if (const auto* failure = dynamic_cast<const Failure*>(&error)) return {failure->code(), failure->what()};
  if (dynamic_cast<const std::bad_alloc*>(&error))
    return {Exit::does_not_fit, "the host has no memory left. Make batch.tokens or evaluation.sequences smaller"};
  if (lacks_threads(error)) return {Exit::does_not_fit, kNoThreads};
  if (std::string why = stream_problem(); !why.empty()) return {Exit::usage, std::move(why)};
  return {Exit::internal,
          fmt::format("{}. This is a bug in llmc, not in your run: please report it with the command", error.what())};
}

/// Never destroyed: a request that a launcher passes on late must not end a rank that has saved.
std::optional<SignalWatch>& stop_signals() {
  static auto& signals = *new std::optional<SignalWatch>;
  return signals;
}

/// Trains as one rank of the launch, and reports its failure to waiting ranks.
int train_as_rank(const PhaseStart& start, const Program& program, const TrainerPhases& phases) {
  const Options& options = start.options;
  const LauncherInfo launch = identified(launch_of_this_process(), program.info.fingerprint, options.run);
  Rendezvous::Limits limits;
  limits.start = std::chrono::seconds(options.start_timeout);
  limits.silence = std::chrono::seconds(options.peer_timeout);
  limits.collective = std::chrono::seconds(options.collective_timeout);
  Rendezvous rendezvous(launch, limits);
  try {
    const int code = train(start, program, phases, launch, rendezvous, stop_signals());
    rendezvous.leave();
    return code;
  } catch (const SharedFailure& failure) {
    if (launch.rank == 0) print_error(failure.what());
    rendezvous.leave();  // after printing: a launcher may end the others as soon as one has exited
    return static_cast<int>(failure.code());
  } catch (const std::exception& error) {
    const Ending ending = ending_of(error);
    rendezvous.farewell(static_cast<int>(ending.code), ending.message);
    throw;
  }
}

void print_plan(const Options& options, const TrainerPhases& phases) {
  const ProgramInfo info = phases.in(phase_of_plan(options, phases));
  // Run-time values change no plan. Wrong ones are refused all the same.
  std::vector<std::string> overrides = options.overrides;
  std::erase_if(overrides, [](const std::string& word) { return word.starts_with(kPhaseWord); });
  spec::override_values(built_values(info, options.base), overrides, "");
  if (options.json) return fmt::print("{}", info.plan_json);
  if (info.phase.count > 1)
    fmt::print("phase {} of {}, up to step {}\n", info.phase.number, info.phase.count, info.phase.last());
  fmt::print("{}", info.plan_text);
}

/// Runs the command requested instead of training; returns false if there is none.
bool answer(const Options& options, const Program& program, const TrainerPhases& phases) {
  // Training with several ranks checks this later, when the other ranks can be told.
  if (options.tune || options.calibrate || options.evaluate || options.sample || options.ranks > 1)
    check_processor(program.info);
  if (options.plan)
    print_plan(options, phases);
  else if (options.batches && launch_of_this_process().rank == 0) {
    const PhaseStart start = options_for_batches(options, phases);
    print_batches(start.options, phases.in(start.number));
  } else if (options.tune)
    tune(program.info, options.device.value_or(0), options.sustained_ms);
  else if (options.calibrate)
    calibrate(*options.calibrate, program);
  else if (options.evaluate)
    evaluate(*options.evaluate, program);
  else if (options.sample)
    sample(*options.sample, program);
  else
    return options.batches.has_value();
  return true;
}

/// Trains as one rank, or starts all ranks of --ranks and waits for them. Returns the exit code.
int train_phases(const PhaseStart& start, const Program& program, const TrainerPhases& phases,
                 const LauncherInfo& launch, int argc, char** argv) {
  const Options& options = start.options;
  if (options.ranks > 1) {
    if (launch.world_size > 1)
      throw Failure(Exit::usage,
                    fmt::format("{} has already started this process as one of {} ranks. Leave out --ranks", launch.by,
                                launch.world_size));
    std::signal(SIGPIPE, SIG_IGN);  // same as in a rank
    check_ranks_fit(program.info, options.ranks);
    setenv(kStarterVariable, "1", 1);
    bool stopped = false;
    const int code = spawn_ranks(words_of_a_rank(argc, argv), options.ranks, rank_starter(), {}, &stopped);
    unsetenv(kStarterVariable);
    const bool saved = code == static_cast<int>(Exit::resume_me);
    if (saved && !stopped && options.deadline == 0 && is_at_border(options, phases.in(start.number)))
      return kPhaseIsDone;
    if (saved)  // no rank knows this command
      to_stderr("resume with\n  {}\n",
                printable_text(resume_line(options.command, spec_when_compiled(executable_folder()),
                                           noted_spec(executable_folder()))));
    return code;
  }
  return train_as_rank(start, program, phases);
}

}  // namespace

int train_main(int argc, char** argv, const Program& program) try {
  hold_standard_streams();
  std::signal(SIGCHLD, SIG_DFL);  // a parent may have ignored it, and then no child can be waited for
  std::signal(SIGUSR1, SIG_IGN);  // before the first step there is nothing to save
  const std::optional<Options> parsed =
      parse_options(argc, argv, program.info, [] { return default_base(executable_folder()); });
  const TrainerPhases phases(program.info);
  if (!parsed || answer(*parsed, program, phases)) {
    check_output();
    return static_cast<int>(Exit::done);
  }
  const LauncherInfo launch = launch_of_this_process();
  const std::vector<std::string> words(argv, argv + argc);
  check_same_phases(program.info.phase);
  const PhaseStart start = find_phase(*parsed, phases);
  // A run that has all the steps it was asked for needs no other phase.
  const auto is_enough = [&](std::int64_t step) { return parsed->steps && *parsed->steps <= step; };
  if (!phases.has(start.number)) {
    if (!is_enough(start.step)) return leave_to(start, program.info, launch, words);
    fmt::print("nothing to do: the run is at step {}, and --steps is {}\n", start.step, *parsed->steps);
    return static_cast<int>(Exit::done);
  }
  const int code = train_phases(start, program, phases, launch, argc, argv);
  if (code != kPhaseIsDone) return code;
  const PhaseInfo phase = phases.in(start.number).phase;
  const int done = phase.last_here();
  if (is_enough(phase.end_of(done))) return static_cast<int>(Exit::done);
  // A request that came after the phase's last save: no other trainer may take this one's place.
  if (const auto& signals = stop_signals(); signals && signals->stop_signal() != 0) unsetenv(kPhasesVariable);
  return leave_to({start.options, done + 1, phase.end_of(done), *parsed}, program.info, launch, words_for_next(words));
} catch (const std::exception& error) {
  const Ending ending = ending_of(error);
  print_error(ending.message.c_str());
  return static_cast<int>(ending.code);
}

}  // namespace llmc
