#include "trainer/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "device/device.h"
#include "error.h"
#include "files/disk.h"
#include "program/shards.h"
#include "spec/advice/arguments.h"
#include "spec/fingerprint.h"
#include "spec/schema/schema.h"
#include "text/option_checks.h"
#include "text/printable.h"
#include "trainer/saved_options.h"
#include "trainer/startup/resume_guard.h"
#include "trainer/startup/values.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

/// Parses "START:COUNT", or with `alone` also "START" for that step only. Throws Failure(usage).
StepWindow step_window(const char* option, const std::string& text, bool alone) {
  const char* const end = text.data() + text.size();
  std::int64_t start = 0, count = 1;
  const auto [colon, first] = std::from_chars(text.data(), end, start);
  bool right = first == std::errc() && (alone ? colon == end || *colon == ':' : colon != end && *colon == ':');
  if (right && colon != end) {
    const auto [rest, second] = std::from_chars(colon + 1, end, count);
    right = second == std::errc() && rest == end;
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  if (right && start >= 1 && count >= 1 && start <= kMost && count <= kMost) return {start - 1, count};
  throw Failure(Exit::usage, fmt::format("{} {}: write the first step{} a number of steps, as in 20:5", option, text,
                                         alone ? ", or it and" : " and"));
}

/// Parses days, hours, minutes and seconds, such as "3h50m", into seconds.
double duration(const std::string& text) {
  static constexpr struct {
    char unit;
    double seconds;
  } kUnits[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
  const char *at = text.data(), *const end = at + text.size();
  double seconds = 0;
  for (const auto& [unit, length] : kUnits) {
    std::uint32_t count = 0;
    const auto [after, error] = std::from_chars(at, end, count);
    if (error != std::errc() || after == end || *after != unit) continue;
    seconds += count * length;
    at = after + 1;
  }
  if (at != end || seconds <= 0)
    throw Failure(Exit::usage, fmt::format("--deadline {}: write days, hours, minutes and seconds, as in 3h50m", text));
  return seconds;
}

/// Lists the run-time keys, one "  optimizer.lr=0.0003" per line.
std::string list_run_time_keys(const ProgramInfo& info) {
  const spec::Values built = built_values(info, "");
  std::string text;
  for (const spec::Key& key : spec::keys())
    if (key.stage == spec::Stage::run_time)
      text += fmt::format("  {}={}\n", key.path, spec::value_text(key, key.get(built.spec)));
  return text;
}

/// CLI11 options of a trainer and their parsed values.
struct CommandWords {
  explicit CommandWords(const ProgramInfo& info);
  CommandWords(const CommandWords&) = delete;
  CommandWords& operator=(const CommandWords&) = delete;

  void add_run();
  void add_observation();
  void add_ranks();
  void add_answers();
  void add_tune();
  void add_calibrate();
  std::string footer() const;

  /// Refuses arguments of a run together with tune and calibrate.
  void check_alone() const;
  void take_calibration();
  /// Options of a run, of --plan and of --batches, but for its folder.
  void take_run();

  const ProgramInfo& info;
  const bool gpu;  // "90a"; a processor's names begin with a letter
  CLI::App app;
  Options options;
  std::string run, trace, timing, timeline, timeline_steps, base, profile, batches, deadline, calibrated;
  std::int64_t steps = 0;
  int device = 0;
  bool no_final_checkpoint = false;
  CalibrateCommand calibration;
  CLI::Option *steps_option, *timeline_steps_option, *device_option, *tuned_device;
  CLI::App *tune, *calibrate;
};

CommandWords::CommandWords(const ProgramInfo& info)
    : info(info),
      gpu(info.arch[0] >= '0' && info.arch[0] <= '9'),
      app(fmt::format("Trains run {} (fingerprint {}), compiled for {}.", info.name, info.fingerprint, info.arch),
          "trainer") {
  add_run();
  add_observation();
  add_ranks();
  add_answers();
  add_tune();
  add_calibrate();
}

void CommandWords::add_run() {
  app.add_option(
         "--run", run,
         fmt::format("run folder: spec, history, metrics, samples, checkpoints (default: runs/{} next to the spec)",
                     info.name))
      ->type_name("DIR");
  steps_option =
      app.add_option(
             "--steps", steps,
             "stop after this step, with everything saved; the learning rate depends on schedule.steps, not on this")
          ->type_name("N")
          ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 53));
  app.add_option("--deadline", deadline,
                 "stop, save and exit with 75 early enough to finish within this time of the start, such as 3h50m in a "
                 "queue of 4 hours")
      ->type_name("TIME");
  app.add_option("--resume", options.resume,
                 "auto: resume from the run folder's newest complete checkpoint; none: start at step 0, in an empty "
                 "folder; DIR: resume from that checkpoint, or from the newest of that run")
      ->type_name("auto|none|DIR")
      ->capture_default_str();
  app.add_option("--allow", options.allow, "resume although this key differs from the checkpoint's; may be repeated")
      ->type_name("KEY")
      ->allow_extra_args(false)
      ->check([](const std::string& word) {
        return is_guarded(word) ? std::string()
                                : fmt::format("{} is not one of {}, data.train.NAME, data.train.NAME.weight", word,
                                              fmt::join(guarded_keys(), ", "));
      });
  app.add_flag("--follow-spec", options.follow_spec,
               "replace a resumed run's own values by those that this trainer was built with, permanently");
  app.add_flag("--no-final-checkpoint", no_final_checkpoint,
               "end without saving the last step, unless checkpoint.every, a signal or an earlier save that failed "
               "requires it: for short experiments that need only metrics");
  app.add_option("overrides", options.overrides, "run-time values of the spec, as key.path=value")
      ->type_name("KEY=VALUE");
  app.add_option("--base", base, "directory of the spec's relative paths (default: the spec's own)")->type_name("DIR");
  app.add_option("--threads", options.threads,
                 "processor threads (default: OMP_NUM_THREADS, or all that this process may use)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostThreads));
}

void CommandWords::add_observation() {
  app.add_option("--trace", trace, "write weights, tokens, gradients and loss of every step to DIR, as safetensors")
      ->type_name("DIR");
  app.add_option("--timing", timing, "write the seconds of start-up and of every step to FILE, as JSON")
      ->type_name("FILE");
  CLI::Option* timeline_option =
      app.add_option(
             "--timeline", timeline,
             "write each launch of three steps with the plan's name and its time, and the arena's live bytes, to FILE "
             "(Chrome's trace format: open it in Perfetto, or compare it by llmc plan SPEC --measured FILE)")
          ->type_name("FILE");
  timeline_steps_option =
      app.add_option("--timeline-steps", timeline_steps,
                     "with --timeline: COUNT steps from step START on (default: three after the first two)")
          ->type_name("START:COUNT")
          ->needs(timeline_option);
  app.add_option(
         "--profile", profile,
         "on a GPU: the profiler's capture covers COUNT steps from step START on, which run without graphs so "
         "that Nsight Systems shows the plan's names (nsys profile --capture-range=cudaProfilerApi trainer ...)")
      ->type_name("START:COUNT")
      ->group(gpu ? "Options" : "");
}

void CommandWords::add_ranks() {
  app.add_option("--ranks", options.ranks,
                 std::string("start this many ranks on this machine, each with ") +
                     (gpu ? "a GPU of its own; on several machines, start the trainer with torchrun, mpirun or srun"
                          : "a share of the cores; on several machines, start the trainer with mpirun"))
      ->type_name("N")
      ->check(CLI::Range(1, kMostRanks));
  app.add_option("--peer-timeout", options.peer_timeout,
                 "with several ranks: seconds of silence after which a rank counts as lost, and all end with 170")
      ->type_name("SECONDS")
      ->check(CLI::Range(2, 86400))
      ->capture_default_str();
  app.add_option("--collective-timeout", options.collective_timeout,
                 "with several ranks: seconds that one collective may take, or 100 steps where that is longer, before "
                 "all end with 170")
      ->type_name("SECONDS")
      ->check(CLI::Range(2, 864000))
      ->capture_default_str();
  app.add_option("--start-timeout", options.start_timeout,
                 "with several ranks: seconds in which all must connect, or those that have connected end with 170")
      ->type_name("SECONDS")
      ->check(CLI::Range(2, 86400))
      ->capture_default_str();
}

void CommandWords::add_answers() {
  CLI::Option* plan = app.add_flag("--plan", options.plan,
                                   "print what this trainer was built for, and exit; of a trainer with several phases "
                                   "the plan of the phase that the run is at, or of phase=N");
  CLI::Option* batches_option =
      app.add_option("--batches", batches,
                     "print the samples of step STEP of the run, or of COUNT steps from there, and exit")
          ->type_name("STEP[:COUNT]")
          ->excludes(plan);
  app.add_flag("--text", options.text, "with --batches: print the start of each sample")->needs(batches_option);
  app.add_flag("--json", options.json, "with --plan or --batches: print JSON");
  app.add_flag("--quiet", options.quiet, "print warnings and errors only");
  device_option =
      app.add_option(
             "--device", device,
             "number of the accelerator (default: the first; with several ranks on a machine, the rank's number there)")
          ->type_name("N")
          ->check(CLI::Range(0, 1023))
          ->group(gpu ? "Options" : "");
}

void CommandWords::add_tune() {
  tune = app.add_subcommand(
      "tune",
      "on a GPU: times the library's algorithms for each matrix product, and writes the fastest to tuned.json next to "
      "this program for later runs. Algorithms differ in the order of their sums: tune before a run, not within it");
  if (!gpu) tune->group("");
  tuned_device =
      tune->add_option("--device", device, "number of the accelerator")->type_name("N")->check(CLI::Range(0, 1023));
  tune->add_option("--sustained", options.sustained_ms,
                   "seconds for which each of the fastest three is timed a second time, on a warm device; 0: only in "
                   "bursts of 3 ms")
      ->type_name("MS")
      ->check(CLI::Range(0.0, 60000.0))
      ->capture_default_str();
}

void CommandWords::add_calibrate() {
  calibrate = app.add_subcommand("calibrate",
                                 "times products, copies, attention and other kernels on this device; `llmc calibrate` "
                                 "makes a device file of the result, from which the planner predicts times");
  calibrate
      ->add_option("--seconds", calibration.seconds, "seconds to measure for; everything is measured at least once")
      ->type_name("SECONDS")
      ->check(finite_from(0, 3600))
      ->capture_default_str();
  calibrate->add_option("--sizes", calibration.sizes, "sizes m, n and k of the products that are timed")
      ->type_name("N")
      ->check(CLI::Range(32, 8192));
  calibrate->add_flag("--attention-only", calibration.attention_only, "measure attention only");
  calibrate->add_option("-o,--out", calibrated, "write the figures to FILE, for `llmc calibrate FILE`")
      ->type_name("FILE");
  calibrate->add_option("--threads", calibration.threads, "processor threads, as for a run")
      ->type_name("N")
      ->check(CLI::Range(1, kMostThreads));
  calibrate->add_option("--device", calibration.device, "number of the accelerator")
      ->type_name("N")
      ->check(CLI::Range(0, 1023))
      ->group(gpu ? "Options" : "");
}

std::string CommandWords::footer() const {
  return std::string(
             "Signals: USR1 saves and continues; TERM, INT, HUP and USR2 finish the step, save and exit with 75; a "
             "second one exits at once.\n\nExamples:\n  trainer                                      trains, or "
             "resumes where it stopped\n  trainer --steps 100 optimizer.lr=1e-3        the first 100 steps, with a "
             "different learning rate\n  trainer --resume runs/a/checkpoints/step-00000100 --run runs/b\n  trainer "
             "--batches 120:2 --text               the samples of steps 120 and 121\n  trainer --trace trace --steps 1 "
             "--run runs/trace\n  trainer evaluate --checkpoint runs/a         the loss of its newest weights on "
             "held-out data\n  trainer sample --checkpoint runs/a --prompt 'Once upon a time'\n") +
         (gpu ? "  trainer tune                                 once, before the runs\n" : "") +
         "  trainer calibrate -o figures.json            for `llmc calibrate figures.json`\n" +
         "\nRun-time values and their defaults:\n" + list_run_time_keys(info);
}

void CommandWords::check_alone() const {
  std::string others;
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0 && !(options.tune && option->get_name() == "--device"))
      others += (others.empty() ? "" : ", ") + option->get_name();
  if (!others.empty() && options.tune)
    throw Failure(Exit::usage, fmt::format("tune takes --device and no option of a run. Leave out {}", others));
  if (!others.empty())
    throw Failure(
        Exit::usage,
        fmt::format("calibrate takes only the options after its name, and no option of a run. Leave out {}", others));
}

void CommandWords::take_calibration() {
  std::ranges::sort(calibration.sizes);
  const auto again = std::ranges::unique(calibration.sizes);
  calibration.sizes.erase(again.begin(), again.end());
  calibration.out = calibrated;
  options.calibrate = calibration;
}

void CommandWords::take_run() {
  if (options.json && !options.plan && batches.empty())
    throw Failure(Exit::usage, "--json works only with --plan or --batches");
  if (options.plan || !batches.empty())
    for (const char* training :
         {"--trace", "--timing", "--timeline", "--profile", "--ranks", "--no-final-checkpoint", "--deadline"})
      if (app.get_option(training)->count() > 0)
        throw Failure(Exit::usage,
                      fmt::format("{} does not train. Leave out {}", options.plan ? "--plan" : "--batches", training));
  if (steps_option->count() > 0) options.steps = steps;
  if (device_option->count() + tuned_device->count() > 0) options.device = device;
  if (!deadline.empty()) options.deadline = duration(deadline);
  if (timeline_steps_option->count() > 0)
    options.timeline_steps = step_window("--timeline-steps", timeline_steps, false);
  if (!profile.empty()) options.profile = step_window("--profile", profile, false);
  if (!batches.empty()) options.batches = step_window("--batches", batches, true);
  options.final_checkpoint = !no_final_checkpoint;
  options.trace = trace;
  options.timing = timing;
  options.timeline = timeline;
}

/// The message of a parse error, with the help of the command that was parsed.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error, const std::string& program) {
  const CLI::App& command = parsed_command(app);
  std::string text = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error))
    text = spec::unexpected_text(
        {app.remaining(true), long_options(command), command.get_option_no_throw("overrides") != nullptr});
  return fmt::format("{}{} See {} {}--help", text, text.ends_with('?') ? "" : ".", program,
                     &command == &app ? "" : command.get_name() + " ");
}

/// Throws Failure(usage) if a word that should be an override is close to the name of a command.
void check_command_words(const CLI::App& app, const std::vector<std::string>& words) {
  const std::vector<std::string> commands = names_of_commands(app);
  for (const std::string& word : words)
    if (word.find('=') == std::string::npos)
      if (const std::string meant = spec::did_you_mean(word, commands); !meant.empty())
        throw Failure(Exit::usage, fmt::format("there is no command '{}'. {}", printable(word), meant));
}

}  // namespace

bool overrides(const Options& options, const std::string& key) {
  const spec::Schema& schema = spec::spec_schema();
  return std::ranges::any_of(options.overrides, [&](const std::string& word) {
    const std::size_t equals = word.find('=');
    return equals != std::string::npos && schema.canonical(word.substr(0, equals)) == schema.canonical(key);
  });
}

std::optional<Options> parse_options(int argc, char** argv, const ProgramInfo& info,
                                     const std::function<fs::path()>& default_base) {
  CommandWords words(info);
  CLI::App& app = words.app;
  Options& options = words.options;
  const SavedOptions saved(app, words.gpu);
  app.set_version_flag("--version", fmt::format("{} {} {}", info.name, info.fingerprint, info.arch));
  app.footer([&words] { return words.footer(); });
  std::vector<const char*> spelled(argv, argv + argc);
  spell_as_options(app, spelled);
  try {
    parse_words(app, static_cast<int>(spelled.size()), spelled.data());
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return std::nullopt;
  } catch (const CLI::Success&) {
    fmt::print("{}", app.help());
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw Failure(Exit::usage, usage_error(app, error, argc > 0 ? argv[0] : "trainer"));
  }
  check_command_words(app, options.overrides);
  options.command.assign(argv, argv + argc);
  options.evaluate = saved.evaluate(default_base);
  options.sample = saved.sample(default_base);
  if (options.evaluate || options.sample) return options;
  options.tune = words.tune->parsed();
  if (options.tune || words.calibrate->parsed()) words.check_alone();
  if (words.calibrate->parsed()) {
    words.take_calibration();
    return options;
  }
  words.take_run();
  if (options.tune || (options.plan && !info.phase.shares_trainer())) return options;  // these need no folder
  options.base = words.base.empty() ? default_base() : disk::absolute(words.base, Exit::usage);
  options.run_named = !words.run.empty();
  options.run = words.run.empty() ? options.base / "runs" / info.name : fs::path(words.run);
  return options;
}

}  // namespace llmc
