#include "trainer/opening.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "checkpoint/best.h"
#include "comm/together.h"
#include "error.h"
#include "files/durable_file.h"
#include "host/executable.h"
#include "program/compiled_spec.h"
#include "train/after_save.h"
#include "trainer/startup/later_phases.h"
#include "trainer/startup/phase.h"
#include "trainer/startup/resume_point.h"

namespace llmc {

namespace fs = std::filesystem;

Prepared prepare_alike(Rank& rank, PhaseStart& start) {
  rank.rendezvous.at(0, "starting");
  std::unique_ptr<RunFolder> folder;  // of rank 0, whose lock ends what another start still saves
  together(rank.launch, rank.rendezvous, [&] {
    check_processor(rank.info());
    if (rank.is_first() && RunFolder::holds_run(start.options.run))
      folder = std::make_unique<RunFolder>(start.options.run, built_values(rank.info(), start.options.base).spec,
                                           rank.warnings(), start.options.allow);
  });
  Prepared prepared;
  Rendezvous::Facts later;
  const auto prepare_start = [&] {
    const auto from = find_start(start.options.run, start.options.resume, rank.warnings());
    start = phase_again(start, rank.phases, from);
    rank.in_force = rank.phases.in(start.number);
    prepared = prepare(rank.options, rank.info(), noted_spec(executable_folder()), from, rank.is_first(), rank.console);
    prepared.folder = std::move(folder);
    prepared.moved = start.moved;
    with_origins(rank.options, prepared.values,
                 [&] { check_work(rank.info(), prepared.run(), rank.launch.world_size); });
    later = check_later_phases(rank.options, rank.phases, rank.info(), prepared, rank.launch.world_size);
  };
  // Rank 0 may check all weights of init.from.
  together(rank.launch, rank.rendezvous, prepare_start, Rendezvous::Wait::unlimited);
  agree(rank.rendezvous, rank.options, rank.info(), prepared, later);
  return prepared;
}

std::unique_ptr<RunMirror> open_mirror(Rank& rank, const Prepared& p, const RunFolder& folder) {
  const spec::Checkpoint& policy = p.run().checkpoint;
  if (policy.mirror.empty()) return nullptr;
  return std::make_unique<RunMirror>(
      policy.mirror,
      RunMirror::Start{folder.path(), folder.id(), p.state.step, p.start ? p.start->checkpoint : fs::path()},
      mirror_interval(policy.every, policy.mirror_every), rank.warnings());
}

namespace {

/// Finishes what a kill cut off after the last save of a run that has ended. Of rank 0, which has the folder.
void complete_ended(Rank& rank, const Prepared& p) {
  if (!p.folder || !p.start) return;
  std::unique_ptr<RunMirror> mirror;
  try {
    mirror = open_mirror(rank, p, *p.folder);
  } catch (const Failure& failure) {  // nothing will be trained that the mirror could miss
    rank.console.warning(failure.what());
  }
  complete_save(*p.folder, mirror.get(), p.run(), p.state, p.start->checkpoint, kept_borders(rank.info().phase),
                rank.warnings());
}

}  // namespace

bool is_done(Rank& rank, const Prepared& prepared) {
  const std::string why = nothing_to_do(prepared, rank.options);
  if (why.empty()) return false;
  complete_ended(rank, prepared);
  rank.rendezvous.barrier(Rendezvous::Wait::unlimited);
  rank.console.text(why);
  return true;
}

namespace {

/// Warns of disks that cannot hold what the run and its mirror will keep up to the end of the phase.
void tell_small_disks(Rank& rank, const Prepared& p, std::int64_t bytes) {
  const spec::Spec& run = p.run();
  const spec::Checkpoint& policy = run.checkpoint;
  const PhaseInfo& phase = rank.info().phase;
  Retention retention{policy.keep_last, policy.keep_every};
  if (const auto best = best_of_run(p.folder->path(), policy.best, p.state.step, p.state.best))
    retention.best = best->step;
  SavesAhead ahead{p.state.step, phase.count == 1 ? run.schedule.steps : phase.last(), policy.every,
                   policy.best == "none" ? 0 : run.evaluation.every, kept_borders(phase)};
  tell_small_disk(p.folder->path(), bytes, retention, ahead, rank.warnings());
  if (policy.mirror.empty()) return;
  if (const std::int64_t interval = mirror_interval(policy.every, policy.mirror_every)) {
    // Others are copied by chance alone.
    ahead.every = interval;
    ahead.evaluation_every = 0;
    ahead.borders.clear();
  }
  tell_small_disk(policy.mirror, bytes, retention, ahead, rank.warnings());
}

}  // namespace

RunFiles open_files(Rank& rank, Prepared& prepared) {
  const Options& options = rank.options;
  const ProgramInfo& info = rank.info();
  RunFiles files;
  const auto open = [&] {
    if (!rank.is_first()) return;
    if (!prepared.folder) {
      prepared.folder = std::make_unique<RunFolder>(options.run, built_values(info, options.base).spec, rank.warnings(),
                                                    options.allow);
      // Known only under the lock: data may have taken minutes to open.
      if (!prepared.folder->is_new())
        throw Failure(Exit::checkpoint, fmt::format("another trainer has begun the run in '{}' while this one started. "
                                                    "Start it again",
                                                    options.run.string()));
    }
    if (!options.timing.empty()) check_can_write(options.timing, {Exit::usage, "--timing"});
    files.mirror = open_mirror(rank, prepared, *prepared.folder);
    const RunMirror* mirror = files.mirror.get();
    if (const auto& start = prepared.start)
      complete_save(*prepared.folder, mirror, prepared.run(), prepared.state, start->checkpoint,
                    kept_borders(info.phase), rank.warnings());
    const std::int64_t bytes = checkpoint_bytes(info.parameters, saved_buffers(info.buffers));
    check_can_save(prepared.folder->path(), bytes);
    tell_small_disks(rank, prepared, bytes);
  };
  // Rank 0 may copy a whole checkpoint to the mirror.
  together(rank.launch, rank.rendezvous, open, Rendezvous::Wait::unlimited);
  check_shared(rank.launch, rank.rendezvous, options.run);
  files.folder = std::move(prepared.folder);
  files.path = files.folder ? files.folder->path() : options.run;
  if (!rank.is_first()) {
    files.log = open_rank_log(options.run, rank.launch.rank);
    rank.console.log_to(files.log.get());
  }
  return files;
}

}  // namespace llmc
