#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "comm/collectives.h"
#include "data/vocabulary.h"
#include "error.h"
#include "executable.h"
#include "files/durable_file.h"
#include "math/libraries.h"
#include "math/tuning.h"
#include "plural.h"
#include "run/history.h"
#include "spec/fingerprint.h"
#include "spec/print.h"
#include "train/clock.h"
#include "train/command.h"
#include "train/inputs.h"
#include "train/loop.h"
#include "train/metrics.h"
#include "train/options.h"
#include "train/place.h"
#include "train/program.h"
#include "train/resume.h"
#include "train/start.h"
#include "train/tune.h"
#include "version.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

void check_profile(const StepWindow& window, const Device& device, std::int64_t done, std::int64_t stop) {
  if (!device.runs_ahead())
    throw Failure(Exit::usage,
                  "--profile is for Nsight Systems on a GPU; on a CPU, run the trainer under perf or VTune");
  if (window.first < done || window.first + window.count > stop)
    throw Failure(Exit::usage, fmt::format("--profile {}:{} names steps {} to {}, and this run trains steps {} to {}",
                                           window.first + 1, window.count, window.first + 1,
                                           window.first + window.count, done + 1, stop));
}

void print_header(Console& console, const ProgramInfo& info, const Device& device, const spec::Spec& values,
                  const TokenShards& train, std::int64_t samples, const fs::path& run, const TrainState& state,
                  const std::optional<StartPoint>& start, std::int64_t stop) {
  const std::int64_t sequences = values.batch.tokens / info.sequence_length;
  console.text(fmt::format("{}: {} parameters, fingerprint {}", info.name, format_count(info.parameter_count),
                           info.fingerprint));
  console.text(fmt::format("device  {}, compiled for {}", device.description(), info.arch));
  console.text(fmt::format("memory  {} bytes allocated ({:.1f} MiB)",
                           format_count(static_cast<std::int64_t>(info.arena_bytes)),
                           static_cast<double>(info.arena_bytes) / (1 << 20)));
  const std::string algorithms = describe_tuning(info.products, info.math_workspace_bytes());
  if (!algorithms.empty()) console.text("gemm    " + algorithms);
  if (info.attention) console.text("attn    " + describe_attention(*info.attention));
  console.text(
      fmt::format("data    {} tokens in {} shard{}, {} sample{} of {}; {} step{} of {} tokens are {:.2f} epochs",
                  format_count(train.tokens()), train.shards().size(),
                  plural(static_cast<std::int64_t>(train.shards().size())), format_count(samples), plural(samples),
                  info.sequence_length, format_count(stop), plural(stop), format_count(values.batch.tokens),
                  static_cast<double>(stop) * static_cast<double>(sequences) / static_cast<double>(samples)));
  // --resume may name a checkpoint of another folder: this one is where the run goes on.
  const bool foreign = start && fs::weakly_canonical(start->checkpoint).parent_path() !=
                                    fs::weakly_canonical(checkpoints_directory(run));
  console.text(fmt::format("run     {}, {}{}", run.string(),
                           state.step ? fmt::format("resumed at step {}", state.step) : "from step 0",
                           foreign ? fmt::format(" of '{}'", start->checkpoint.string()) : ""));
}

Environment environment(const ProgramInfo& info, const Device& device, const Communicator& ranks) {
  return {kVersion,           info.fingerprint, info.arch,          device.description(),
          library_versions(), device.threads(), ranks.world_size(), file_checksum(tuned_file())};
}

/// Why there is no step to train.
std::string nothing_to_do(const fs::path& where, std::int64_t step, std::int64_t stop, bool typed) {
  const char* limit = typed ? "--steps" : "schedule.steps";
  if (step > stop)
    return fmt::format("nothing to do: '{}' is at step {}, past {} {}", where.string(), step, limit, stop);
  return fmt::format("nothing to do: '{}' is at step {} of {}; a larger {} goes on", where.string(), step, stop, limit);
}

/// Values that the command line asked for, by override or by --follow-spec, and that no step of a finished run was
/// trained with: "optimizer.lr 0.001, not 0.003". The number of steps is not one of them.
std::string asked_in_vain(const spec::Spec& before, const spec::Spec& run, const Options& options) {
  std::string text;
  for (const spec::Change& c : spec::changes(before, run)) {
    const bool followed = options.follow_spec && c.key->stage == spec::Stage::run_time && !c.key->aside;
    if ((followed || overrides(options, c.key->path)) && c.key->path != "schedule.steps")
      text += fmt::format("{}{} {}, not {}", text.empty() ? "" : ", ", c.key->path, c.before, c.after);
  }
  return text;
}

/// What is other than at the start before, and whether bits differ because of it.
void tell_changes(Console& console, const std::vector<spec::Change>& changed,
                  const std::vector<std::string>& surroundings, bool resumed) {
  std::string build;
  const auto add = [&](const std::string& text) { build += (build.empty() ? "" : ", ") + text; };
  for (const spec::Change& c : changed) {
    if (c.key->path == "target.arch") continue;  // what it became is among the surroundings
    const std::string text = fmt::format("{} {} -> {}", c.key->path, c.before, c.after);
    if (c.key->stage == spec::Stage::compiled && !c.key->aside)
      add(text);
    else
      console.text("change  " + text);
  }
  for (const std::string& text : surroundings) add(text);
  if (!build.empty() && resumed)
    console.warning(build + ": the run goes on, and its bits differ from here from those without the change");
}

/// What this run has in another value than its trainer: kept from the run, or of the command line.
void tell_differences(Console& console, const Options& options, const StartValues& values) {
  std::vector<std::string> kept, words;
  for (const spec::Change& c : spec::changes(values.built.spec, values.run.spec)) {
    console.text(fmt::format("value   {}={} (the trainer was built with {})", c.key->path, c.after, c.before));
    if (!values.before || options.follow_spec || overrides(options, c.key->path)) continue;
    kept.push_back(c.key->path);
    const bool there = spec::present(c.key->get(values.built.spec)) && spec::applies(*c.key, values.built.spec);
    if (there || c.key->is_path) words.push_back(c.key->path + "=" + (there ? c.before : ""));
  }
  if (!kept.empty())
    console.text(
        fmt::format("value   the run keeps its own {}; to take the trainer's, add {}, or --follow-spec for all",
                    spec::either(kept, " and "), shell_line(words)));
  for (const std::string& path : edited_spec_files(executable_folder()))
    console.warning(
        fmt::format("'{}' was edited after this trainer was compiled, which knows nothing of the edit; `llmc compile` "
                    "makes one that does{}",
                    path, values.before ? ", and with --follow-spec this run then takes its run-time values" : ""));
}

int train(int argc, char** argv, const Options& options, const Program& program) {
  const ProgramInfo& info = program.info;
  std::signal(SIGPIPE, SIG_IGN);  // a log pipe that dies must not end a run
  Console console(stdout, options.quiet);
  const Log log = [&](const std::string& line) { console.warning(line); };

  // A folder is made when all that can be refused without it is right.
  const spec::Spec built = built_values(info, options.base).spec;
  const std::string model = spec::model_fingerprint(built);
  std::optional<RunFolder> folder;
  const fs::path spec_file = noted_spec(executable_folder());
  check_spec(options, spec_file);
  if (RunFolder::holds_run(options.run)) folder.emplace(options.run, built, log);
  const std::optional<StartPoint> start = find_start(options.run, options.resume, log);
  const std::optional<std::string> last = folder ? folder->spec_yaml() : std::nullopt;
  const StartValues values = find_values(options, info, last, start);
  const spec::Spec& run = values.run.spec;
  const std::int64_t stop = last_step(options, run);
  const std::int64_t sequences = run.batch.tokens / info.sequence_length;
  tell_differences(console, options, values);
  if (const fs::path other = other_spec(options.run, spec_file); !other.empty())
    console.text(fmt::format("note    the run was last started by a trainer of '{}'; this one is of '{}'",
                             other.string(), spec_file.string()));
  if (const std::string note = vocabulary_note(run.model.vocab_size, run.data.tokenizer, run.data.train.path);
      !note.empty())
    console.text("note    " + note);

  check_paths(options, values, last.has_value());
  Inputs inputs = open_inputs(run, info);

  TrainState state{
      0, {}, run.seed, run.data.seed, model, inputs.train->fingerprint(), file_checksum(run.data.tokenizer)};
  if (start) {
    const TrainState saved = read_train_state(start->checkpoint);
    check_resume(saved, values.before->spec, state, run, options.allow, start->checkpoint);
    state.step = saved.step;
    state.position = position_after(saved, state);
    if (state.tokenizer.empty()) state.tokenizer = saved.tokenizer;
  }
  state.position = continue_with(state.position, info.sequence_length);
  if (state.step >= stop) {
    const fs::path& where = start ? start->checkpoint : options.run;
    const std::string why = nothing_to_do(where, state.step, stop, options.steps.has_value());
    const std::string vain = values.before ? asked_in_vain(values.before->spec, run, options) : "";
    if (!vain.empty())
      throw Failure(Exit::usage,
                    fmt::format("{}; it was trained with {}: for a run of its own give another --run, such "
                                "as --run runs/NAME",
                                why, vain));
    console.text(why);
    return 0;
  }
  if (!folder) folder.emplace(options.run, built, log);
  check_can_save(folder->path(), info.parameters, saved_buffers(info.buffers), run.checkpoint.keep_last + 1, log);

  // The first batches are read while the device gets ready.
  Loader loader(inputs.train, run.data.seed, info.sequence_length, info.micro_batch, sequences, state.position);
  Device device(options.device, options.threads);
  if (options.profile) check_profile(*options.profile, device, state.step, stop);
  const Launch launch;
  Rendezvous rendezvous(launch, {});
  Communicator ranks(device, launch, rendezvous);
  Session session(device, ranks, program);
  if (start) {
    load_checkpoint(start->checkpoint, info.parameters, session.state(), start->trust);
    session.refresh_copies();
  } else {
    session.initialise(run.seed);
  }
  std::optional<TraceWriter> trace;
  if (!options.trace.empty()) trace.emplace(options.trace, info.parameters, info.micro_batch, info.sequence_length);
  print_header(console, info, device, run, *inputs.train, loader.samples_per_epoch(), folder->path(), state, start,
               stop);

  const Environment now = environment(info, device, ranks);
  std::vector<spec::Change> changed;
  if (values.before) changed = spec::changes(values.before->spec, run);
  tell_changes(console, changed, differences(last_environment(folder->history()), now), start.has_value());
  spec::Values kept = values.run;
  spec::relate_paths(kept.spec, folder->path());
  folder->start(
      spec::to_yaml(kept), info.plan_json,
      format_history({state.step, utc_now(), start ? start->checkpoint.string() : "", now, model,
                      state.data_fingerprint, spec::related_path(spec_file, fs::weakly_canonical(folder->path())),
                      options.overrides, options.allow, changed}),
      state.step);

  SignalWatch signals;
  const CheckpointTexts texts{info.config_json, spec::to_yaml(values.run, shapes_tensors)};
  TrainLoop loop({run, texts, session, loader, *folder, console, signals,
                  inputs.evaluation ? &*inputs.evaluation : nullptr, inputs.sampling ? &*inputs.sampling : nullptr,
                  trace ? &*trace : nullptr, stop, options.profile, options.final_checkpoint},
                 state);
  const double training = process_seconds();
  const int signal = loop.run();
  if (!options.timing.empty())
    write_file_atomically(options.timing, format_timing(training, loop.first_step_end(), loop.step_seconds()));
  console.finish();
  if (signal == 0) return static_cast<int>(Exit::done);
  const std::string text = fmt::format("stopped by {} after step {} of {}, everything is saved; resume with\n  {}\n",
                                       signal_name(signal), loop.state().step, stop, resume_line({argv, argv + argc}));
  std::fputs(text.c_str(), stderr);
  return static_cast<int>(Exit::resume_me);
}

void print_error(const char* text) {
  const char* no_colour = std::getenv("NO_COLOR");
  const bool colour = isatty(STDERR_FILENO) && !(no_colour && *no_colour);
  std::fprintf(stderr, "%serror:%s %s\n", colour ? "\033[31m" : "", colour ? "\033[0m" : "", text);
}

}  // namespace

int train_main(int argc, char** argv, const Program& program) try {
  const std::optional<Options> options =
      parse_options(argc, argv, program.info, [] { return default_base(executable_folder()); });
  if (!options) return 0;
  if (options->plan) {
    fmt::print("{}", options->json ? program.info.plan_json : program.info.plan_text);
    return 0;
  }
  if (options->tune) {
    tune(program.info, options->device);
    return static_cast<int>(Exit::done);
  }
  return train(argc, argv, *options, program);
} catch (const Failure& failure) {
  print_error(failure.what());
  return static_cast<int>(failure.code());
} catch (const std::bad_alloc&) {
  print_error("the host's memory is used up; make batch.tokens or evaluation.sequences smaller");
  return static_cast<int>(Exit::does_not_fit);
} catch (const std::exception& error) {
  print_error(fmt::format("{}; this is a bug in llmc, not in your run: please report it with the command", error.what())
                  .c_str());
  return static_cast<int>(Exit::internal);
}

}  // namespace llmc
