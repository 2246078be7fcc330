#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "comm/collectives.h"
#include "comm/launch.h"
#include "comm/rendezvous.h"
#include "comm/spawn.h"
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
#include "train/together.h"
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

void print_header(Console& console, const Session& session, const Device& device, const spec::Spec& values,
                  const TokenShards& train, std::int64_t samples, const fs::path& run, const TrainState& state,
                  const std::optional<StartPoint>& start, std::int64_t stop) {
  const ProgramInfo& info = session.info();
  const std::int64_t sequences = values.batch.tokens / info.sequence_length;
  const std::size_t bytes = session.allocated_bytes();
  console.text(fmt::format("{}: {} parameters, fingerprint {}", info.name, format_count(info.parameter_count),
                           info.fingerprint));
  console.text(fmt::format("device  {}, compiled for {}", device.description(), info.arch));
  console.text(fmt::format("memory  {} bytes allocated ({:.1f} MiB)", format_count(static_cast<std::int64_t>(bytes)),
                           static_cast<double>(bytes) / (1 << 20)));
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

void print_error(const char* text) {
  const char* no_colour = std::getenv("NO_COLOR");
  const bool colour = isatty(STDERR_FILENO) && !(no_colour && *no_colour);
  std::fprintf(stderr, "%serror:%s %s\n", colour ? "\033[31m" : "", colour ? "\033[0m" : "", text);
}

/// What a run needs before anything is trained: found, opened and checked.
struct Prepared {
  std::optional<RunFolder> folder;  // of rank 0
  std::optional<StartPoint> start;
  std::optional<std::string> last;  // what ran in the folder before
  StartValues values;
  Inputs inputs;
  TrainState state;
  std::int64_t stop = 0;
  std::string model;
};

/// All that a rank can find out by reading. Of many ranks, only the first holds the folder's lock.
void prepare(Prepared& p, const Options& options, const ProgramInfo& info, const fs::path& spec_file, bool owner,
             Console& console) {
  const Log log = [&](const std::string& line) { console.warning(line); };
  // A folder is made when all that can be refused without it is right.
  const spec::Spec built = built_values(info, options.base).spec;
  p.model = spec::model_fingerprint(built);
  check_spec(options, spec_file);
  if (owner && RunFolder::holds_run(options.run)) p.folder.emplace(options.run, built, log);
  p.start = find_start(options.run, options.resume, log);
  p.last = RunFolder::spec_yaml(options.run);
  p.values = find_values(options, info, p.last, p.start);
  const spec::Spec& run = p.values.run.spec;
  p.stop = last_step(options, run);
  tell_differences(console, options, p.values);
  if (const fs::path other = other_spec(options.run, spec_file); !other.empty())
    console.text(fmt::format("note    the run was last started by a trainer of '{}'; this one is of '{}'",
                             other.string(), spec_file.string()));
  if (const std::string note = vocabulary_note(run.model.vocab_size, run.data.tokenizer, run.data.train.path);
      !note.empty())
    console.text("note    " + note);
  check_paths(options, p.values, p.last.has_value());
  p.inputs = open_inputs(run, info);

  p.state = {0, {}, run.seed, run.data.seed, p.model, p.inputs.train->fingerprint(), file_checksum(run.data.tokenizer)};
  if (p.start) {
    const TrainState saved = read_train_state(p.start->checkpoint);
    check_resume(saved, p.values.before->spec, p.state, run, options.allow, p.start->checkpoint);
    p.state.step = saved.step;
    p.state.position = position_after(saved, p.state);
    if (p.state.tokenizer.empty()) p.state.tokenizer = saved.tokenizer;
  }
  p.state.position = continue_with(p.state.position, info.sequence_length);
}

/// Throws Failure(does_not_fit) where a step has less work than ranks.
void check_work(const ProgramInfo& info, const spec::Spec& run, int ranks) {
  const std::int64_t sequences = run.batch.tokens / info.sequence_length, passes = sequences / info.micro_batch;
  if (passes >= ranks) return;
  throw Failure(
      Exit::does_not_fit,
      fmt::format("a step of {} tokens is {} micro-batch{} of {} sequence{}, too few for {} ranks; compile "
                  "with parallel.world_size={}{}, or give batch.tokens={}",
                  run.batch.tokens, passes, passes == 1 ? "" : "es", info.micro_batch, plural(info.micro_batch), ranks,
                  ranks, sequences >= ranks ? " and batch.micro_batch=auto" : "",
                  ranks * info.micro_batch * info.sequence_length));
}

/// What all ranks must have alike. Throws SharedFailure.
void agree(Rendezvous& ranks, const ProgramInfo& info, const Prepared& p) try {
  Rendezvous::Facts facts = {{"llmc's version", kVersion},
                             {"trainer", info.fingerprint},
                             {"instruction set", info.arch},
                             {"training data", p.state.data_fingerprint},
                             {"first step", std::to_string(p.state.step + 1)}};
  for (const spec::Key& key : spec::keys())
    facts.emplace_back(key.path, spec::value_text(key, key.get(p.values.run.spec)));
  ranks.agree(facts);
} catch (const Failure& failure) {
  throw SharedFailure(failure.code(), failure.what());
}

/// What all ranks end by stands in the log of each; rank 0 shows it.
int run_loop(TrainLoop& loop, Console& console, bool owner) try {
  return loop.run();
} catch (const SharedFailure& end) {
  if (!owner) console.text(fmt::format("error: {}", end.what()));
  throw;
}

int train(int argc, char** argv, const Options& options, const Program& program, const Launch& launch,
          Rendezvous& rendezvous) {
  const ProgramInfo& info = program.info;
  const bool owner = launch.rank == 0;
  std::signal(SIGPIPE, SIG_IGN);  // a log pipe that dies must not end a run
  RankLog rank_log;
  Console console = owner ? Console(stdout, options.quiet, launch.world_size > 1) : Console();
  const Log log = [&](const std::string& line) { console.warning(line); };

  rendezvous.at(0, "starting");
  const fs::path spec_file = noted_spec(executable_folder());
  Prepared prepared;
  together(launch, rendezvous, [&] {
    prepare(prepared, options, info, spec_file, owner, console);
    check_work(info, prepared.values.run.spec, launch.world_size);
  });
  agree(rendezvous, info, prepared);
  TrainState& state = prepared.state;
  const StartValues& values = prepared.values;
  const std::optional<StartPoint>& start = prepared.start;
  const spec::Spec& run = values.run.spec;
  const std::int64_t stop = prepared.stop, sequences = run.batch.tokens / info.sequence_length;
  if (state.step >= stop) {
    const fs::path& where = start ? start->checkpoint : options.run;
    const std::string why = nothing_to_do(where, state.step, stop, options.steps.has_value());
    const std::string vain = values.before ? asked_in_vain(values.before->spec, run, options) : "";
    if (!vain.empty())
      throw SharedFailure(Exit::usage,
                          fmt::format("{}; it was trained with {}: for a run of its own give another --run, such "
                                      "as --run runs/NAME",
                                      why, vain));
    console.text(why);
    return 0;
  }
  std::optional<RunFolder>& folder = prepared.folder;
  together(launch, rendezvous, [&] {
    if (!owner) return;
    if (!folder) folder.emplace(options.run, built_values(info, options.base).spec, log);
    check_can_save(folder->path(), info.parameters, saved_buffers(info.buffers), run.checkpoint.keep_last + 1, log);
  });
  check_shared(launch, rendezvous, options.run);
  if (!owner) {
    rank_log = open_rank_log(options.run, launch.rank);
    console.log_to(rank_log.get());
  }

  // The first batches are read while the device gets ready.
  const RankShare share{launch.rank, launch.world_size, owner && !options.trace.empty()};
  Loader loader(prepared.inputs.train, run.data.seed, info.sequence_length, info.micro_batch, sequences, state.position,
                share);
  Device device(options.device ? *options.device : Device::index_of(launch.local_rank), options.threads);
  check_distinct(launch, rendezvous, device.identity());
  if (options.profile) check_profile(*options.profile, device, state.step, stop);
  Communicator ranks(device, launch, rendezvous);
  Session session(device, ranks, program);
  if (start) {
    load_checkpoint(start->checkpoint, info.parameters, session.state(), start->trust);
    session.refresh_copies();
  } else {
    session.initialise(run.seed);
  }
  std::optional<TraceWriter> trace;
  if (!options.trace.empty())
    trace.emplace(owner ? options.trace : fs::path(), info.parameters, info.micro_batch, info.sequence_length);
  print_header(console, session, device, run, *prepared.inputs.train, loader.samples_per_epoch(), options.run, state,
               start, stop);
  if (launch.world_size > 1)
    console.text(
        fmt::format("ranks   {}, started by {}; this is rank {}", ranks.description(), launch.by, launch.rank));

  const Environment now = environment(info, device, ranks);
  std::vector<spec::Change> changed;
  if (values.before) changed = spec::changes(values.before->spec, run);
  tell_changes(console, changed, differences(last_environment(RunFolder::history(options.run)), now),
               start.has_value());
  rendezvous.barrier();  // all have read the history
  if (folder) {
    spec::Values kept = values.run;
    spec::relate_paths(kept.spec, folder->path());
    folder->start(spec::to_yaml(kept), info.plan_json,
                  format_history({state.step, utc_now(), start ? start->checkpoint.string() : "", now,
                                  session.allocated_bytes(), prepared.model, state.data_fingerprint,
                                  spec::related_path(spec_file, fs::weakly_canonical(folder->path())),
                                  options.overrides, options.allow, changed}),
                  state.step);
  }

  SignalWatch signals;
  const CheckpointTexts texts{info.config_json, spec::to_yaml(values.run, shapes_tensors)};
  Inputs& inputs = prepared.inputs;
  const fs::path path = folder ? folder->path() : options.run;
  TrainLoop loop({run, texts, session, loader, path, folder ? &*folder : nullptr, console, rendezvous, signals,
                  inputs.evaluation ? &*inputs.evaluation : nullptr, inputs.sampling ? &*inputs.sampling : nullptr,
                  trace ? &*trace : nullptr, stop, options.profile, options.final_checkpoint},
                 state);
  const double training = process_seconds();
  const int signal = run_loop(loop, console, owner);
  if (owner && !options.timing.empty())
    write_file_atomically(options.timing, format_timing(training, loop.first_step_end(), loop.step_seconds()));
  console.finish();
  rendezvous.barrier();  // who ends its part of NCCL looks lost to those that still work
  if (signal == 0) return static_cast<int>(Exit::done);
  // What a launcher has started goes on by the launcher's own words, which no rank knows.
  const std::string how = launch.world_size > 1 ? "start the ranks again as before to go on"
                                                : "resume with\n  " + resume_line({argv, argv + argc});
  const std::string text = fmt::format(
      "stopped by {} after step {} of {}, everything is saved; {}\n",
      signal == TrainLoop::kOtherRank ? "a signal to another rank" : signal_name(signal), loop.state().step, stop, how);
  if (owner) std::fputs(text.c_str(), stderr);
  return static_cast<int>(Exit::resume_me);
}

/// The command line without --ranks, as each rank gets it.
std::vector<std::string> words_of_a_rank(int argc, char** argv) {
  std::vector<std::string> words = {fs::canonical("/proc/self/exe").string()};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--ranks")
      ++i;
    else if (!word.starts_with("--ranks="))
      words.push_back(word);
  }
  return words;
}

Launch launch_of_this_process() {
  return find_launch([](const char* name) -> const char* { return std::getenv(name); });
}

/// Trains as one of the launch's ranks; those who wait for this one hear of what it fails by.
int train_as_rank(int argc, char** argv, const Options& options, const Program& program) {
  const Launch launch = launch_of_this_process();
  Rendezvous::Limits limits;
  limits.start = std::chrono::seconds(options.start_timeout);
  limits.silence = std::chrono::seconds(options.peer_timeout);
  Rendezvous rendezvous(launch, limits);
  try {
    const int code = train(argc, argv, options, program, launch, rendezvous);
    rendezvous.leave();
    return code;
  } catch (const SharedFailure& failure) {
    if (launch.rank == 0) print_error(failure.what());
    rendezvous.leave();  // when that is said: a launcher may end the others as soon as one has ended
    return static_cast<int>(failure.code());
  } catch (const Failure& failure) {
    rendezvous.farewell(static_cast<int>(failure.code()), failure.what());
    throw;
  } catch (const std::bad_alloc&) {
    rendezvous.farewell(static_cast<int>(Exit::does_not_fit), "the host's memory is used up");
    throw;
  } catch (const std::exception& error) {
    rendezvous.farewell(static_cast<int>(Exit::internal), error.what());
    throw;
  }
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
    tune(program.info, options->device.value_or(0));
    return static_cast<int>(Exit::done);
  }
  if (options->ranks > 1) {
    const Launch launch = launch_of_this_process();
    if (launch.world_size > 1)
      throw Failure(Exit::usage,
                    fmt::format("{} has started this process as one of {} ranks already: leave out --ranks", launch.by,
                                launch.world_size));
    return spawn_ranks(words_of_a_rank(argc, argv), options->ranks, rank_starter());
  }
  return train_as_rank(argc, argv, *options, program);
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
