#include "train/rollback.h"

#include <fmt/format.h>

#include "files/disk.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

void remove_from_mirror(const RunMirror* mirror, std::int64_t step, const Log& log) try {
  if (mirror) mirror->remove_after(step);
} catch (const std::exception& failure) {  // the rollback itself continues
  log(fmt::format("the mirror still has checkpoints from after the rollback: {}", failure.what()));
}

}  // namespace

std::optional<TrainState> roll_back(const fs::path& run, const RunMirror* mirror, RunFolder* folder,
                                    const TrainState& now, std::int64_t first_skipped, std::int64_t earliest,
                                    const std::string& why, const HistoryEntry& start, Session& session,
                                    Rendezvous& ranks, const Log& log) {
  std::string name;
  if (folder)
    // Steps before that are of another trainer.
    if (const auto found = find_checkpoint_before(run, first_skipped, log); found && found->step >= earliest) {
      name = found->path.filename().string();
      // Removed first, so that a run killed here resumes from an earlier step and rolls back once more. The mirror
      // comes before the run, because it must never hold checkpoints that the run has abandoned.
      remove_from_mirror(mirror, found->step, log);
      remove_checkpoints_after(run, found->step);
    }
  name = ranks.broadcast(name, 0);
  if (name.empty()) return std::nullopt;
  const fs::path checkpoint = checkpoints_directory(run) / name;
  std::string converted;
  TrainState state = load_checkpoint(checkpoint, session.info().parameters, session.state(),
                                     folder ? Trust::verified : Trust::unverified, [&](const std::string& text) {
                                       converted = text;
                                       log(text);
                                     });
  session.refresh_copies();
  // Samples between the checkpoint and the first skipped step are skipped as well: they led to the weights that failed.
  state.position = with_tokens(now.position, state.position);
  state.data_fingerprint = now.data_fingerprint;
  state.data_seed = now.data_seed;
  state.guard.rollbacks = now.guard.rollbacks + 1;
  if (folder) {
    HistoryEntry entry = start;
    entry.step = state.step;
    entry.time = utc_now();
    entry.checkpoint = disk::absolute(checkpoint, Exit::checkpoint).lexically_normal().string();
    entry.order.position = state.position;
    entry.changed.clear();
    entry.converted = converted;
    entry.shards.clear();
    entry.rollbacks = state.guard.rollbacks;
    entry.phase = 0;
    entry.same_start = false;
    entry.left_step = now.step;
    entry.why = why;
    folder->go_back(format_history(entry), state.step);
  }
  return state;
}

}  // namespace llmc
