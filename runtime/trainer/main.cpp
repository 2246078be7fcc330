#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <new>

#include "comm/collectives.h"
#include "comm/launch.h"
#include "comm/rendezvous.h"
#include "comm/spawn.h"
#include "comm/stop_limit.h"
#include "comm/together.h"
#include "error.h"
#include "files/disk.h"
#include "files/durable_file.h"
#include "host/clock.h"
#include "host/executable.h"
#include "host/standard_streams.h"
#include "host/thread_limit.h"
#include "program/place.h"
#include "program/program.h"
#include "run/history.h"
#include "run/run_mirror.h"
#include "spec/print.h"
#include "step/fits.h"
#include "step/timeline.h"
#include "text/printable.h"
#include "train/after_save.h"
#include "train/loop.h"
#include "train/metrics.h"
#include "train/sample_text.h"
#include "train/usage.h"
#include "trainer/commands/batches.h"
#include "trainer/commands/product_rate.h"
#include "trainer/commands/tune.h"
#include "trainer/options.h"
#include "trainer/startup/header.h"
#include "trainer/startup/prepare.h"
#include "trainer/startup/resume_line.h"
#include "trainer/startup/values.h"

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

constexpr std::int64_t kWarmUpSteps = 2, kTimelineSteps = 3;

/// Those that were asked for, or some after those in which libraries load what they load at first use.
StepWindow timeline_steps(const Options& options, std::int64_t done, std::int64_t stop) {
  const StepWindow steps = options.timeline_steps.value_or(StepWindow{done + kWarmUpSteps, kTimelineSteps});
  if (steps.first < done || steps.first + steps.count > stop)
    throw Failure(Exit::usage,
                  fmt::format("--timeline would write steps {} to {}, and this run trains steps {} to {}; name others "
                              "by --timeline-steps START:COUNT",
                              steps.first + 1, steps.first + steps.count, done + 1, stop));
  return steps;
}

void print_error(const char* text) {
  const char* no_colour = std::getenv("NO_COLOR");
  const bool colour = isatty(STDERR_FILENO) && !(no_colour && *no_colour);
  std::fprintf(stderr, "%serror:%s %s\n", colour ? "\033[31m" : "", colour ? "\033[0m" : "",
               printable_text(text).c_str());
}

/// Of rank 0, where the run has a mirror.
void open_mirror(std::optional<RunMirror>& mirror, const Prepared& p, const Log& log) {
  const spec::Checkpoint& policy = p.values.run.spec.checkpoint;
  if (policy.mirror.empty()) return;
  mirror.emplace(
      policy.mirror,
      RunMirror::Start{p.folder->path(), p.folder->id(), p.state.step, p.start ? p.start->checkpoint : fs::path()},
      mirror_interval(policy.every, policy.mirror_every), log);
}

/// What a kill has cut off after the last save of a run that has ended. Of rank 0, which has the folder.
void complete_ended(Prepared& p, const Log& log) {
  if (!p.folder || !p.start) return;
  std::optional<RunMirror> mirror;
  try {
    open_mirror(mirror, p, log);
  } catch (const Failure& failure) {  // there is nothing to train that would not be copied
    log(failure.what());
  }
  complete_save(*p.folder, mirror ? &*mirror : nullptr, p.values.run.spec, p.state, p.start->checkpoint, log);
}

/// What all ranks end by stands in the log of each; rank 0 shows it.
int run_loop(TrainLoop& loop, Console& console, bool owner) try {
  return loop.run();
} catch (const SharedFailure& end) {
  if (!owner) console.text(fmt::format("error: {}", end.what()));
  throw;
}

int train(int argc, char** argv, const Options& options, const Program& program, const Launch& launch,
          Rendezvous& rendezvous, std::optional<SignalWatch>& watched) {
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
    check_processor(info);
    prepare(prepared, options, info, spec_file, owner, console);
    with_origins(options, prepared.values, [&] { check_work(info, prepared.values.run.spec, launch.world_size); });
  });
  agree(rendezvous, options, info, prepared);
  TrainState& state = prepared.state;
  const StartValues& values = prepared.values;
  const std::optional<StartPoint>& start = prepared.start;
  const spec::Spec& run = values.run.spec;
  const std::int64_t stop = prepared.stop, sequences = run.batch.tokens / info.sequence_length;
  std::optional<RunFolder>& folder = prepared.folder;
  std::optional<RunMirror> mirror;
  if (const std::string why = nothing_to_do(prepared, options); !why.empty()) {
    complete_ended(prepared, log);
    console.text(why);
    return 0;
  }
  together(launch, rendezvous, [&] {
    if (!owner) return;
    if (!folder) folder.emplace(options.run, built_values(info, options.base).spec, log);
    if (!options.timing.empty()) check_can_write(options.timing, {Exit::usage, "--timing"});
    open_mirror(mirror, prepared, log);
    if (start) complete_save(*folder, mirror ? &*mirror : nullptr, run, state, start->checkpoint, log);
    const Retention retention{run.checkpoint.keep_last, run.checkpoint.keep_every};
    check_can_save(folder->path(), info.parameters, saved_buffers(info.buffers), retention, log);
    if (mirror)
      tell_small_disk(run.checkpoint.mirror, checkpoint_bytes(info.parameters, saved_buffers(info.buffers)), retention,
                      log);
  });
  check_shared(launch, rendezvous, options.run);
  if (!owner) {
    rank_log = open_rank_log(options.run, launch.rank);
    console.log_to(rank_log.get());
  }

  // The first batches are read while the device gets ready.
  const RankShare share{launch.rank, launch.world_size, owner && !options.trace.empty()};
  const auto open_loader = [&](const DataPosition& position) {
    return std::make_unique<Loader>(prepared.inputs.train, run.data.seed, info.sequence_length, info.micro_batch,
                                    sequences, position, share);
  };
  std::unique_ptr<Loader> loader = open_loader(state.position);
  Device device(options.device ? *options.device : Device::index_of(launch.local_rank), options.threads);
  check_distinct(launch, rendezvous, device.identity());
  if (options.profile) check_profile(*options.profile, device, state.step, stop);
  std::optional<Timeline> timeline;
  together(launch, rendezvous, [&] {
    if (options.timeline.empty() || !owner) return;
    timeline.emplace(options.timeline, timeline_steps(options, state.step, stop), device, info,
                     Timeline::Machine{device.description(), device.threads(), launch.world_size});
  });
  Communicator ranks(device, launch, rendezvous, {run.deterministic, static_cast<int>(run.parallel.reserved_sms)});
  // While the device's memory is free: what is allocated for it goes again.
  std::optional<ProductRate> products;
  if (run.metrics.product_share)
    products =
        measure_products(info, options.device ? *options.device : Device::index_of(launch.local_rank), options.threads);
  const std::optional<double> product_flops = rate_of_ranks(rendezvous, products);
  Session session(device, ranks, program);
  if (start) {
    load_checkpoint(start->checkpoint, info.parameters, session.state(), start->trust);
    session.refresh_copies();
  } else {
    session.initialise(run.seed);
    if (prepared.weights) {
      prepared.weights->load(session.state());
      session.refresh_copies();
    }
  }
  std::optional<TraceWriter> trace;
  if (!options.trace.empty())
    trace.emplace(owner ? options.trace : fs::path(), info.parameters, info.micro_batch, info.sequence_length);
  print_header(console, session, device, run, *prepared.inputs.train, loader->samples_per_epoch(), options.run, state,
               start, stop);
  // Said before the first step. Once a run trains, its log is no reason to stop; a pipe may be gone at any time.
  if (owner && stream_error(stdout) != EPIPE) check_output();
  if (!start)
    console.text("weights " +
                 (prepared.weights ? prepared.weights->description() : fmt::format("drawn, seed {}", run.seed)));
  if (products) console.text("product " + describe(*products));
  if (launch.world_size > 1)
    console.text(
        fmt::format("ranks   {}, started by {}; this is rank {}", ranks.description(), launch.by, launch.rank));

  const Environment now = environment(info, device, ranks);
  std::vector<spec::Change> changed;
  if (values.before) changed = spec::changes(values.before->spec, run);
  tell_changes(console, changed, differences(last_environment(RunFolder::history(options.run)), now),
               start.has_value());
  if (start) tell_rate(console, values.before->spec, run, state.step);
  rendezvous.barrier();  // all have read the history
  const HistoryEntry entry{state.step,
                           utc_now(),
                           start ? start->checkpoint.string() : "",
                           prepared.weights ? run.init.from : "",
                           now,
                           session.allocated_bytes(),
                           product_flops,
                           prepared.model,
                           {state.data_fingerprint, state.data_seed, state.position, sequences},
                           folder ? spec::related_path(spec_file, disk::canonical_if_known(folder->path())) : "",
                           options.overrides,
                           options.allow,
                           changed,
                           state.guard.rollbacks,
                           unlisted_shards(prepared, RunFolder::history(options.run))};
  if (folder) {
    spec::Values kept = values.run;
    spec::relate_paths(kept.spec, folder->path());
    folder->start(spec::to_yaml(kept), info.plan_json, format_history(entry), state.step);
  }

  SignalWatch& signals = watched.emplace();
  const CheckpointTexts texts{info.config_json, spec::to_yaml(values.run, shapes_tensors)};
  Inputs& inputs = prepared.inputs;
  const fs::path path = folder ? folder->path() : options.run;
  std::function<std::string(std::uint64_t)> sample_text;
  if (owner && run.guards.log_text)
    sample_text = [samples = Samples(inputs.train, info.sequence_length),
                   tokenizer = inputs.tokenizer.get()](std::uint64_t id) {
      return shown_beginning_of(samples, static_cast<std::int64_t>(id), tokenizer);
    };
  std::optional<Audit> audit;
  if (run.audit.compute != spec::AuditCompute::none) audit.emplace(run.audit);
  TrainLoop loop({run,
                  texts,
                  session,
                  loader,
                  open_loader,
                  path,
                  folder ? &*folder : nullptr,
                  mirror ? &*mirror : nullptr,
                  console,
                  rendezvous,
                  signals,
                  inputs.evaluation,
                  audit ? &*audit : nullptr,
                  inputs.sampling ? &*inputs.sampling : nullptr,
                  trace ? &*trace : nullptr,
                  stop,
                  options.profile,
                  timeline ? &*timeline : nullptr,
                  entry,
                  sample_text,
                  peak_flops(device.description(), run.compute),
                  product_flops,
                  start || prepared.weights ? std::nullopt : std::optional(expected_first_loss(run, run.batch.tokens)),
                  options.final_checkpoint,
                  options.deadline,
                  folder && start ? seconds_of(folder->last_metrics()) : 0},
                 state);
  const double training = process_seconds();
  std::optional<StopLimit> stop_limit;
  if (launch.world_size > 1)
    stop_limit.emplace(rendezvous, [&] { return signals.stop_signal(); }, std::chrono::seconds(options.peer_timeout));
  const int signal = run_loop(loop, console, owner);
  stop_limit.reset();
  if (owner && !options.timing.empty())
    write_file_atomically(options.timing, format_timing(training, loop.first_step_end(), loop.step_seconds()),
                          {Exit::checkpoint, "--timing"});
  console.finish();
  rendezvous.barrier();  // who ends its part of NCCL looks lost to those that still work
  if (signal == 0) return static_cast<int>(Exit::done);
  // What a launcher has started goes on by the launcher's own words, which no rank knows.
  const std::string how =
      launch.world_size > 1
          ? "start the ranks again as before to go on"
          : "resume with\n  " + resume_line({argv, argv + argc}, spec_when_compiled(executable_folder()),
                                            noted_spec(executable_folder()));
  const std::string text = fmt::format("stopped by {} after step {} of {}, everything is saved; {}\n",
                                       signal == TrainLoop::kOtherRank  ? "a signal to another rank"
                                       : signal == TrainLoop::kDeadline ? "--deadline"
                                                                        : signal_name(signal),
                                       loop.state().step, stop, how);
  if (owner) std::fputs(printable_text(text).c_str(), stderr);
  return static_cast<int>(Exit::resume_me);
}

/// The command line without --ranks, as each rank gets it.
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

Launch launch_of_this_process() {
  return find_launch([](const char* name) -> const char* { return std::getenv(name); });
}

int internal(const std::exception& error) {
  print_error(fmt::format("{}; this is a bug in llmc, not in your run: please report it with the command", error.what())
                  .c_str());
  return static_cast<int>(Exit::internal);
}

/// Trains as one of the launch's ranks; those who wait for this one hear of what it fails by.
int train_as_rank(int argc, char** argv, const Options& options, const Program& program) {
  // Outlives the process's own end: a request that a launcher passes on late must not end a rank that has saved.
  static auto& signals = *new std::optional<SignalWatch>;
  const Launch launch = identified(launch_of_this_process(), program.info.fingerprint, options.run);
  Rendezvous::Limits limits;
  limits.start = std::chrono::seconds(options.start_timeout);
  limits.silence = std::chrono::seconds(options.peer_timeout);
  limits.collective = std::chrono::seconds(options.collective_timeout);
  Rendezvous rendezvous(launch, limits);
  try {
    const int code = train(argc, argv, options, program, launch, rendezvous, signals);
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

/// Does what the words ask for in place of a run; false where that is nothing.
bool answer(const Options& options, const Program& program) {
  // One of several ranks asks when the others can hear of it.
  if (options.tune || options.calibrate || options.evaluate || options.sample || options.ranks > 1)
    check_processor(program.info);
  if (options.plan)
    fmt::print("{}", options.json ? program.info.plan_json : program.info.plan_text);
  else if (options.batches && launch_of_this_process().rank == 0)
    print_batches(options, program.info);
  else if (options.tune)
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

}  // namespace

int train_main(int argc, char** argv, const Program& program) try {
  hold_standard_streams();
  const std::optional<Options> options =
      parse_options(argc, argv, program.info, [] { return default_base(executable_folder()); });
  if (!options || answer(*options, program)) {
    check_output();
    return static_cast<int>(Exit::done);
  }
  if (options->ranks > 1) {
    const Launch launch = launch_of_this_process();
    if (launch.world_size > 1)
      throw Failure(Exit::usage,
                    fmt::format("{} has started this process as one of {} ranks already: leave out --ranks", launch.by,
                                launch.world_size));
    std::signal(SIGPIPE, SIG_IGN);  // as of a rank
    check_ranks_fit(program.info, options->ranks);
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
  if (lacks_threads(error)) {
    print_error(kNoThreads);
    return static_cast<int>(Exit::does_not_fit);
  }
  if (const std::string why = stream_problem(); !why.empty()) {
    print_error(why.c_str());
    return static_cast<int>(Exit::usage);
  }
  return internal(error);
}

}  // namespace llmc
