#include "train/rollback.h"

#include <fmt/format.h>

#include <cstdlib>

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

WentBack roll_back(const fs::path& run, const RunMirror* mirror, RunFolder* folder, const TrainState& now,
                   std::int64_t first_skipped, std::int64_t earliest, const std::string& why, const HistoryEntry& start,
                   Session& session, Rendezvous& ranks, const Log& log) {
  std::string text;  // of the checkpoint's step
  if (folder)
    if (const auto found = find_checkpoint_before(run, first_skipped, log)) {
      text = std::to_string(found->step);
      // Removed first, so that a run killed here resumes from an earlier step and rolls back once more. The mirror
      // comes before the run, because it must never hold checkpoints that the run has abandoned.
      if (found->step >= earliest) {
        remove_from_mirror(mirror, found->step, log);
        remove_checkpoints_after(run, found->step);
      }
    }
  text = ranks.broadcast(text, 0, Rendezvous::Wait::unlimited);
  if (text.empty()) return {};
  const std::int64_t step = std::strtoll(text.c_str(), nullptr, 10);
  if (step < earliest) return {{}, step};
  const fs::path checkpoint = checkpoints_directory(run) / checkpoint_name(step);
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
  return {state, {}};
}

}  // namespace llmc
