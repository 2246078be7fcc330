#include "trainer/run_listeners.h"

#include <fmt/format.h>

#include "error.h"
#include "files/durable_file.h"
#include "host/clock.h"
#include "spec/validation_sets.h"
#include "train/listeners/metrics_log.h"
#include "train/listeners/observed_steps.h"
#include "train/listeners/progress_line.h"
#include "train/listeners/sample_log.h"
#include "trainer/startup/later_phases.h"
#include "trainer/startup/step_windows.h"

namespace llmc {

StartListeners::StartListeners(Rank& rank, const Prepared& p, const Machine& machine, Session& session,
                               const RunFiles& files)
    : began_(process_seconds()),
      seconds_before_(p.start && files.folder ? seconds_of(files.folder->last_metrics()) : 0) {
  if (rank.options.profile) add<ProfiledSteps>(session, *rank.options.profile);
  if (!rank.options.timeline.empty())
    add<TimedSteps>(timeline_steps(rank.options, p.state.step, p.stop), machine.timeline.get(), session, rank.console);
  if (rank.is_first() && !rank.options.timing.empty()) times_ = add<StepTimes>();
}

void StartListeners::write_times(const Options& options, Console& console) const try {
  if (times_)
    write_file_atomically(options.timing, format_timing(began_, times_->first_end(), times_->seconds()),
                          {Exit::checkpoint, "--timing"});
} catch (const Failure& failure) {
  console.warning(fmt::format("{}. The times of the steps are lost", failure.what()));
}

PhaseListeners::PhaseListeners(const StartListeners& of_start, Rank& rank, const Prepared& p, const Machine& machine,
                               Session& session, const RunFiles& files, const SignalWatch& signals) {
  const spec::Spec& run = p.run();
  const Peaks peaks{.flops_per_token = rank.info().flops_per_token,
                    .devices = rank.mesh().world.size,
                    .device = peak_flops(machine.device->description(), run.compute, run.matmul == spec::Matmul::tf32),
                    .products = run.metrics.product_share ? machine.product_flops : std::nullopt};
  add_all(of_start.all());
  if (files.folder)
    add<MetricsLog>(MetricsLog::Of{.folder = *files.folder,
                                   .console = rank.console,
                                   .values = run,
                                   .session = session,
                                   .peaks = peaks,
                                   .sample_names = sample_names(p.inputs.train),
                                   .sources = sizes_of(p.inputs.train, rank.info().sequence_length),
                                   .seconds_before = of_start.seconds_before()});
  const std::int64_t last = p.length(rank.info()).stop;
  add<ProgressLine>(
      ProgressLine::Of{.console = rank.console,
                       .peaks = peaks,
                       .stop = p.stop,
                       .phase_last = last,
                       .batch_tokens = run.batch.tokens,
                       .tokens_after = tokens_ahead(rank.options, rank.phases, rank.info(), p.values, last, p.stop),
                       .set = spec::leading_set(run)});
  if (p.inputs.sampling)
    add<SampleLog>(SampleLog::Of{.sampling = *p.inputs.sampling,
                                 .session = session,
                                 .ranks = rank.rendezvous,
                                 .folder = files.folder.get(),
                                 .console = rank.console,
                                 .signals = signals,
                                 .every = run.sampling.every,
                                 .stop = p.stop});
}

}  // namespace llmc
