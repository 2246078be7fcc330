#include "trainer/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/collectives.h"
#include "comm/connection.h"
#include "comm/stop_limit.h"
#include "comm/together.h"
#include "error.h"
#include "files/disk.h"
#include "host/clock.h"
#include "host/executable.h"
#include "host/limits.h"
#include "host/standard_streams.h"
#include "program/compiled_spec.h"
#include "run/history.h"
#include "run/run_mirror.h"
#include "run/trace.h"
#include "spec/print.h"
#include "spec/validation_sets.h"
#include "step/timeline.h"
#include "text/printable.h"
#include "train/listeners/metrics_log.h"
#include "train/listeners/observed_steps.h"
#include "train/listeners/progress_line.h"
#include "train/listeners/sample_log.h"
#include "train/listeners/step_times.h"
#include "train/loop.h"
#include "train/sample_text.h"
#include "trainer/commands/product_rate.h"
#include "trainer/opening.h"
#include "trainer/rank.h"
#include "trainer/run_listeners.h"
#include "trainer/startup/header.h"
#include "trainer/startup/later_phases.h"
#include "trainer/startup/phase.h"
#include "trainer/startup/prepare.h"
#include "trainer/startup/resume_line.h"
#include "trainer/startup/step_windows.h"
#include "trainer/startup/surplus_threads.h"

namespace llmc {

namespace {

namespace fs = std::filesystem;

using OpenLoader = std::function<std::unique_ptr<Loader>(const DataPosition&)>;

OpenLoader loader_of(const Rank& rank, const Prepared& prepared) {
  const spec::Spec& run = prepared.run();
  const ProgramInfo& info = rank.info();
  const RankShare share{rank.mesh().data, rank.is_first() && !rank.options.trace.empty()};
  const std::int64_t sequences = prepared.sequences(info);
  return [sources = prepared.inputs.train, seed = run.data.seed, &info, sequences, share,
          documents = prepared.inputs.documents](const DataPosition& position) {
    return std::make_unique<Loader>(sources, seed, info.sequence_length, info.micro_batch, sequences, position, share,
                                    documents);
  };
}

/// Rank 0 warns of its machine's threads. Collective.
void tell_surplus_threads(Rank& rank, const Device& device) {
  const std::vector<RankThreads> all =
      gather_threads(rank.rendezvous, {own_host(), device.threads(), device.processors()});
  const std::string surplus = rank.is_first() ? surplus_threads(all, HostLimits()) : "";
  if (!surplus.empty()) rank.console.warning(surplus);
}

/// Whether a phase that this start may train reports the share of the measured products.
bool any_phase_reports_products(const Rank& rank, const Prepared& prepared) {
  if (prepared.run().metrics.product_share) return true;
  const PhaseInfo& phase = rank.info().phase;
  StartValues values = prepared.values;
  for (int number = phase.number + 1; number <= phase.last_here(); ++number) {
    values = values_of_phase(rank.options, rank.phases.in(number), values);
    if (values.run.spec.metrics.product_share) return true;
  }
  return false;
}

/// The first batches are read while the device is being set up.
Machine start_machine(Rank& rank, const Prepared& prepared) {
  const Options& options = rank.options;
  const spec::Spec& run = prepared.run();
  Machine machine;
  machine.loader = loader_of(rank, prepared)(prepared.state.position);
  machine.device = std::make_unique<Device>(rank.device(), options.threads);
  Device& device = *machine.device;
  tell_surplus_threads(rank, device);
  check_distinct(rank.launch, rank.rendezvous, device.identity());
  if (options.profile && !device.runs_ahead())
    throw Failure(Exit::usage,
                  "--profile is for Nsight Systems on a GPU. On a CPU, run the trainer under perf or VTune");
  together(rank.launch, rank.rendezvous, [&] {
    if (options.timeline.empty() || !rank.is_first()) return;
    machine.timeline =
        std::make_unique<Timeline>(options.timeline, device, rank.info(),
                                   Timeline::Machine{device.description(), device.threads(), rank.launch.world_size});
  });
  machine.ranks =
      std::make_unique<Communicator>(device, rank.launch, rank.rendezvous,
                                     CollectiveNeeds{run.deterministic, static_cast<int>(run.parallel.reserved_sms)});
  // Measured while the device's memory is still free; its own allocations are freed afterwards.
  if (any_phase_reports_products(rank, prepared))
    machine.products = measure_products(rank.info(), rank.device(), options.threads);
  machine.product_flops = rate_of_ranks(rank.rendezvous, machine.products);
  return machine;
}

/// Model and optimizer on the device.
struct OnDevice {
  std::unique_ptr<Session> session;
  std::unique_ptr<TraceWriter> trace;  // null: none
};

OnDevice load_model(Rank& rank, Prepared& prepared, Machine& machine) {
  const ProgramInfo& info = rank.info();
  OnDevice model{std::make_unique<Session>(*machine.device, *machine.ranks, rank.program, rank.mesh()), nullptr};
  Session& session = *model.session;
  session.divide_texts(prepared.inputs.documents);
  if (prepared.start) {
    const TrainState loaded =
        load_checkpoint(prepared.start->checkpoint, info.parameters, session.state(), prepared.start->trust,
                        [&](const std::string& text) { prepared.converted = text; });
    if (!prepared.converted.empty()) rank.console.text("note    " + prepared.converted);
    if (loaded.updates() != prepared.state.updates()) {
      prepared.state.begin_optimizer();
      rank.console.text(fmt::format("note    the checkpoint has no state of optimizer.kind {}: it begins anew",
                                    row_of(prepared.run().optimizer.kind).name));
    }
    session.refresh_copies();
  } else {
    session.initialise(prepared.run().seed);
    if (prepared.weights) {
      prepared.weights->load(session.state());
      session.refresh_copies();
    }
  }
  if (!rank.options.trace.empty())
    model.trace = std::make_unique<TraceWriter>(rank.is_first() ? rank.options.trace : fs::path(), info.parameters,
                                                info.micro_batch, info.sequence_length, prepared.state.step);
  return model;
}

void announce(Rank& rank, const Prepared& p, const Machine& machine, const Session& session) {
  Console& console = rank.console;
  const std::int64_t tokens = tokens_ahead(rank.options, rank.phases, rank.info(), p.values, p.state.step, p.stop);
  print_header(console, session, *machine.device, p.run(), p.inputs.train, rank.options.run, p.state, p.start,
               {p.stop, tokens, p.length(rank.info())});
  if (p.inputs.documents.divides())
    console.text(fmt::format("docs    each ends with token {}", p.inputs.documents.separator));
  // A full output file is an error before the first step only. Once a run trains, a lost log must not stop it, and a
  // pipe may break at any time.
  if (rank.is_first() && stream_error(stdout) != EPIPE) check_output();
  if (!p.start)
    console.text("weights " + (p.weights ? p.weights->description() : fmt::format("random, seed {}", p.run().seed)));
  if (machine.products) console.text("product " + describe(*machine.products));
  if (rank.has_others())
    console.text(fmt::format("ranks   {}, started by {}; this is rank {}", machine.ranks->description(), rank.launch.by,
                             rank.launch.rank));
}

bool begins_phase(const PhaseInfo& phase, std::int64_t step) { return phase.count > 1 && step == phase.first(); }

/// Writes what the folder has of a phase that begins without a new start.
void note_phase(Console& console, RunFolder& folder, const std::string& spec_yaml, const char* plan_json,
                const std::string& line) {
  try {
    folder.enter_phase(spec_yaml, plan_json, line);
  } catch (const Failure& failure) {  // a full disk must not end a run
    console.warning(fmt::format("{}. Training continues, and the next save records the phase as well", failure.what()));
  }
}

/// Text of history.jsonl. At a border, where the environment is that of the last line, nothing if it cannot be read.
std::string history_at(const fs::path& run, bool same_start) {
  try {
    return RunFolder::history(run);
  } catch (const Failure&) {
    if (same_start) return "";
    throw;
  }
}

HistoryEntry enter_history(Rank& rank, const Prepared& p, const Machine& machine, const Session& session,
                           const RunFiles& files, bool same_start) {
  const ProgramInfo& info = rank.info();
  const Options& options = rank.options;
  const Environment now = environment(info, *machine.device, session.mesh().world);
  const std::string history = history_at(options.run, same_start);
  std::vector<spec::Change> changed;
  if (p.values.before) changed = spec::changes(*p.values.before, p.values.run);
  tell_changes(rank.console, changed, differences(last_environment(history), now), p.start.has_value());
  if (p.start) tell_rate(rank.console, p.values.before->spec, p.run(), p.state.step);
  rank.rendezvous.barrier();  // until all ranks have read the history
  const bool from_checkpoint = p.start && (!same_start || p.went_back);
  HistoryEntry entry{.step = p.state.step,
                     .time = utc_now(),
                     .checkpoint = from_checkpoint ? p.start->checkpoint.string() : "",
                     .weights = p.weights ? p.run().init.from : "",
                     .environment = now,
                     .memory = session.allocated_bytes(),
                     .product_flops = machine.product_flops,
                     .model = p.model,
                     .order = {p.state.data_fingerprint, p.state.data_seed, p.state.position, p.sequences(info)},
                     .spec = files.folder ? spec::related_path(p.spec_file, disk::canonical_if_known(files.path)) : "",
                     .overrides = options.overrides,
                     .allowed = options.allow,
                     .changed = changed,
                     .same_start = same_start,
                     .converted = p.converted,
                     .rollbacks = p.state.guard.rollbacks,
                     .plateau_told = p.state.guard.plateau.told,
                     .phase = p.moved || begins_phase(info.phase, p.state.step) ? info.phase.number : 0,
                     .shards = unlisted_shards(p, history)};
  if (files.folder) {
    spec::Values kept = p.values.run;
    spec::relate_paths(kept.spec, files.path);
    const std::string spec_yaml = spec::to_yaml(kept), line = format_history(entry);
    if (same_start)
      note_phase(rank.console, *files.folder, spec_yaml, info.plan_json, line);
    else
      files.folder->start(spec_yaml, info.plan_json, line, p.state.step);
  }
  return entry;
}

/// Formats the beginning of a sample's text; empty if it is not to be shown.
std::function<std::string(SampleId)> sample_text(const Rank& rank, const Prepared& prepared) {
  if (!rank.is_first() || !prepared.run().guards.log_text) return {};
  std::vector<Samples> sources;
  for (const Source& source : prepared.inputs.train) sources.emplace_back(source.shards, rank.info().sequence_length);
  return [sources, tokenizer = prepared.inputs.tokenizer.get()](SampleId sample) {
    return shown_beginning_of(sources[sample.source], static_cast<std::int64_t>(sample.id), tokenizer);
  };
}

/// Whether another trainer goes on from `stop`.
bool ends_trainer(const PhaseInfo& phase, std::int64_t stop) {
  return phase.last_here() < phase.count && stop == phase.end_of(phase.last_here());
}

PhaseSteps steps_of(const PhaseInfo& phase, std::int64_t stop) {
  if (phase.count == 1) return {0, stop, 0};
  return {phase.first(), std::min(stop, phase.last()), phase.first_of(phase.first_here())};
}

StartPoint start_at(const RunFiles& files, std::int64_t step) {
  return {checkpoints_directory(files.path) / checkpoint_name(step), Trust::verified};
}

/// Checks a rollback as a start from its checkpoint is checked, up to the end of the run. `began`: as prepare_phase()
/// takes it.
ResumeAt resume_at(const Rank& rank, const Prepared& prepared, const RunFiles& files, const BeganWith& began) {
  return [&](const TrainState& at) {
    const auto check_ahead = [&](const ProgramInfo& info, const Prepared& there, const TrainState& state) {
      if (info.phase.count > 1)
        check_epochs_ahead(rank.options, rank.phases, info, there.values, there.inputs.train, state.position,
                           state.step);
    };
    const PhaseInfo& phase = rank.info().phase;
    if (at.step >= steps_of(phase, prepared.stop).first) {
      TrainState state = resume_in_phase(prepared, rank.info(), at);
      check_ahead(rank.info(), prepared, state);
      return state;
    }
    const ProgramInfo info = rank.phases.in(phase_after(at.step, phase));
    const Prepared there = prepare_phase(options_at_any_border(rank.options, rank.phases), info, prepared, at, began,
                                         start_at(files, at.step));
    check_ahead(info, there, there.state);
    return at;  // the phase takes it from here
  };
}

/// The loop of a phase and the objects it uses.
class Training {
 public:
  Training(Rank& rank, Prepared& prepared, Machine& machine, const OnDevice& model, const RunFiles& files,
           const HistoryEntry& entry, const BeganWith& began, const StartListeners& listeners, SignalWatch& signals,
           const FromPhaseBefore& before)
      : rank_(rank),
        signals_(signals),
        texts_{rank.info().config_json, spec::to_yaml(prepared.values.run, shapes_tensors)},
        borders_(kept_borders(rank.info().phase)),
        listeners_(listeners, rank, prepared, machine, *model.session, files, signals),
        loop_({.values = prepared.run(),
               .texts = texts_,
               .session = *model.session,
               .loader = machine.loader,
               .open_loader = loader_of(rank, prepared),
               .resume_at = resume_at(rank, prepared, files, began),
               .path = files.path,
               .folder = files.folder.get(),
               .mirror = files.mirror.get(),
               .console = rank.console,
               .ranks = rank.rendezvous,
               .signals = signals,
               .evaluation = prepared.inputs.evaluation,
               .tasks = prepared.inputs.tasks,
               .audit = audit_of(prepared),
               .trace = model.trace.get(),
               .listeners = listeners_.all(),
               .stop = prepared.stop,
               .phase = steps_of(rank.info().phase, prepared.stop),
               .start = entry,
               .borders = borders_,
               .sample_names = sample_names(prepared.inputs.train),
               .sample_text = sample_text(rank, prepared),
               .first_loss = first_loss_of(prepared),
               // A border without a checkpoint would never be passed.
               .final_checkpoint = rank.options.final_checkpoint || ends_trainer(rank.info().phase, prepared.stop),
               .deadline = rank.options.deadline,
               .before = before},
              prepared.state) {}

  /// Same as TrainLoop::run(). A failure of all ranks is written to each rank's log; rank 0 prints it.
  int run() try {
    std::optional<StopLimit> stop_limit;
    if (rank_.has_others())
      stop_limit.emplace(
          rank_.rendezvous, [this] { return signals_.stop_signal(); },
          std::chrono::seconds(rank_.options.peer_timeout));
    const int signal = loop_.run();
    stop_limit.reset();
    rank_.console.finish();
    return signal;
  } catch (const SharedFailure& end) {
    if (!rank_.is_first()) rank_.console.text(fmt::format("error: {}", end.what()));
    throw;
  }

  const TrainState& state() const { return loop_.state(); }
  FromPhaseBefore for_next_phase() const { return loop_.for_next_phase(); }
  void keep() { loop_.keep(); }

 private:
  Audit* audit_of(const Prepared& prepared) {
    const spec::Audit& values = prepared.run().audit;
    return values.compute == spec::AuditCompute::none ? nullptr : &audit_.emplace(values);
  }
  /// Nothing for weights that were not initialised at random by this start.
  static std::optional<FirstLoss> first_loss_of(const Prepared& prepared) {
    if (prepared.start || prepared.weights || prepared.state.step > 0) return std::nullopt;
    return expected_first_loss(prepared.run(), prepared.run().batch.tokens);
  }

  Rank& rank_;
  SignalWatch& signals_;
  const CheckpointTexts texts_;
  const std::vector<std::int64_t> borders_;
  std::optional<Audit> audit_;
  const PhaseListeners listeners_;
  TrainLoop loop_;
};

std::string stopped_by(int signal) {
  if (signal == TrainLoop::kOtherRank) return "a signal to another rank";
  return signal == TrainLoop::kDeadline ? "--deadline" : signal_name(signal);
}

int say_end(const Rank& rank, int signal, std::int64_t step, std::int64_t stop) {
  rank.rendezvous.barrier();  // a rank that leaves NCCL looks lost to those still working
  // The main program prints how the next phase begins.
  if (signal == 0) return ends_trainer(rank.info().phase, step) ? kPhaseIsDone : static_cast<int>(Exit::done);
  // A run that a launcher started is resumed by the launcher's own command, which no rank knows.
  const std::string how =
      rank.has_others() ? "Start the ranks with the same command to resume"
                        : "Resume with\n  " + resume_line(rank.options.command, spec_when_compiled(executable_folder()),
                                                          noted_spec(executable_folder()));
  const std::string text =
      fmt::format("stopped by {} after step {} of {}, everything is saved. {}\n", stopped_by(signal), step, stop, how);
  if (rank.is_first()) std::fputs(printable_text(text).c_str(), stderr);
  return static_cast<int>(Exit::resume_me);
}

/// A phase that a run is about to take the values of.
struct NextPhase {
  ProgramInfo info;
  Prepared prepared;
  std::unique_ptr<RunMirror> mirror = nullptr;  // of rank 0, if the phase has another one
};

/// Prepares the phase that follows the state, without a checkpoint: the one after the border that the run has reached,
/// or an earlier one after a rollback. Nothing that the run uses changes. `began`: values of the phase in which this
/// start began.
NextPhase prepare_next(Rank& rank, const Prepared& prepared, const RunFiles& files, const TrainState& state,
                       const BeganWith& began) {
  std::optional<StartPoint> back;
  if (state.step < rank.info().phase.first()) back = start_at(files, state.step);
  rank.rendezvous.at(state.step, "beginning a phase");
  NextPhase next{rank.phases.in(phase_after(state.step, rank.info().phase)), {}};
  together(rank.launch, rank.rendezvous, [&] {
    next.prepared =
        prepare_phase(options_at_any_border(rank.options, rank.phases), next.info, prepared, state, began, back);
    for (const std::string& warning : next.prepared.inputs.warnings) rank.console.warning(warning);
    check_work(next.info, next.prepared.run(), rank.launch.world_size);
    if (files.folder && next.prepared.run().checkpoint.mirror != prepared.run().checkpoint.mirror)
      next.mirror = open_mirror(rank, next.prepared, *files.folder);
  });
  agree(rank.rendezvous, rank.options, next.info, next.prepared);
  return next;
}

/// Takes its values.
void enter_phase(Rank& rank, NextPhase&& next, Prepared& prepared, Machine& machine, const OnDevice& model,
                 RunFiles& files) {
  const spec::Checkpoint &before = prepared.run().checkpoint, &policy = next.prepared.run().checkpoint;
  if (before.mirror != policy.mirror)
    files.mirror = std::move(next.mirror);
  else if (files.mirror)
    files.mirror->copy_every(mirror_interval(policy.every, policy.mirror_every));
  rank.in_force = next.info;
  prepared = std::move(next.prepared);
  model.session->divide_texts(prepared.inputs.documents);
  machine.loader = loader_of(rank, prepared)(prepared.state.position);
  const PhaseInfo& phase = rank.info().phase;
  rank.console.text(
      fmt::format("phase   {} of {}, from step {} on", phase.number, phase.count, prepared.state.step + 1));
  print_sources(rank.console, prepared.inputs.train, prepared.state.position, prepared.length(rank.info()));
}

}  // namespace

int train(PhaseStart start, const Program& program, const TrainerPhases& phases, const LauncherInfo& launch,
          Rendezvous& rendezvous, std::optional<SignalWatch>& signals) {
  std::signal(SIGPIPE, SIG_IGN);  // a broken log pipe must not end a run
  const Options& options = start.options;
  Rank rank{options, program, phases, launch, rendezvous, phases.in(start.number)};
  // Every rank finds values, checkpoint and data by itself, and all agree on them before anything is written.
  Prepared prepared = prepare_alike(rank, start);
  // A run that has all its steps ends here, after completing an interrupted save.
  if (is_done(rank, prepared)) return static_cast<int>(Exit::done);
  // Wrong arguments leave no folder behind.
  for (const std::string& note : drop_past_windows(start.options, prepared.state.step, prepared.stop))
    rank.console.text(note);
  together(launch, rendezvous, [&] {
    check_windows(options, prepared.state.step, prepared.stop);
    if (rank.is_first()) check_trace(options.trace, prepared.state.step, prepared.stop);
  });
  // Rank 0 creates or locks the run folder and its mirror; the others open a log in it.
  RunFiles files = open_files(rank, prepared);
  // Starts the loader, the device, the communication library and a timeline. GEMMs are timed while memory is free.
  Machine machine = start_machine(rank, prepared);
  // Allocates the arena and fills it from a checkpoint, imported weights or the seed.
  const OnDevice model = load_model(rank, prepared, machine);
  // Prints model, hardware and starting point.
  announce(rank, prepared, machine, *model.session);
  std::optional<StartListeners> listeners;
  FromPhaseBefore before;
  const BeganWith began{start.number, prepared.values.run};
  signals.emplace(std::getenv(kStarterVariable) != nullptr);
  for (;;) {
    // Reports changes since the previous start or phase, and adds a line to the run's history.
    const HistoryEntry entry = enter_history(rank, prepared, machine, *model.session, files, listeners.has_value());
    if (!listeners) listeners.emplace(rank, prepared, machine, *model.session, files);
    std::optional<Training> training(std::in_place, rank, prepared, machine, model, files, entry, began, *listeners,
                                     *signals, before);
    // Trains up to the last step, to a border, or until a signal or the deadline.
    const int signal = training->run();
    const TrainState state = training->state();
    // Waits for all ranks. A run that was stopped prints how to resume.
    if (signal != 0 || state.step == prepared.stop) {
      listeners->write_times(options, rank.console);
      return say_end(rank, signal, state.step, prepared.stop);
    }
    std::optional<NextPhase> next;
    try {
      next = prepare_next(rank, prepared, files, state, began);
    } catch (const Failure& failure) {  // of all ranks: the steps of this phase are not lost
      if (!rank.has_others() || dynamic_cast<const SharedFailure*>(&failure)) training->keep();
      throw;
    }
    before = training->for_next_phase();
    training.reset();
    enter_phase(rank, std::move(*next), prepared, machine, model, files);
  }
}

}  // namespace llmc
