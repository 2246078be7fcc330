#include "train/rollback.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "error.h"
#include "files/disk.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

void remove_from_mirror(const RunMirror* mirror, std::int64_t step, const Log& log) try {
  if (mirror) mirror->remove_after(step);
} catch (const std::exception& failure) {  // the rollback itself continues
  log(fmt::format("the mirror still has checkpoints from after the rollback: {}", failure.what()));
}

/// Why a start from there would be refused; empty if it would not.
std::string refusal_of(const TrainState& state, const ResumeAt& resume_at) try {
  resume_at(state);
  return {};
} catch (const Failure& refused) {
  return refused.what();
}

}  // namespace

TrainState rolled_back(TrainState saved, const OrderFrom& left) {
  saved.position = left.order.position;
  saved.data_fingerprint = left.order.data;
  saved.data_seed = left.order.seed;
  saved.guard.rollbacks = left.rollbacks;
  saved.guard.plateau.told |= left.plateau_told;
  return saved;
}

WentBack roll_back(const fs::path& run, const RunMirror* mirror, RunFolder* folder, const TrainState& now,
                   std::int64_t first_skipped, std::int64_t earliest, const std::string& why, const HistoryEntry& start,
                   const ResumeAt& resume_at, Session& session, Rendezvous& ranks, const Log& log) {
  const auto at = [&](TrainState saved) {
    OrderFrom left{now.step, "", start.order, now.guard.rollbacks + 1, now.guard.plateau.told};
    left.order.position = with_tokens(now.position, saved.position);
    return rolled_back(std::move(saved), left);
  };
  std::string text, refusal;  // of the checkpoint's step, and of a start from there
  if (folder)
    if (const auto found = find_checkpoint_before(run, first_skipped, log)) {
      text = std::to_string(found->step);
      if (found->step >= earliest) refusal = refusal_of(at(read_train_state(found->path)), resume_at);
      // Removed first, so that a run killed here resumes from an earlier step and rolls back once more. The mirror
      // comes before the run, because it must never hold checkpoints that the run has abandoned.
      if (found->step >= earliest && refusal.empty()) {
        remove_from_mirror(mirror, found->step, log);
        remove_checkpoints_after(run, found->step);
      }
    }
  text = ranks.broadcast(text, 0, Rendezvous::Wait::unlimited);
  if (text.empty()) return {};
  const std::int64_t step = std::strtoll(text.c_str(), nullptr, 10);
  refusal = ranks.broadcast(refusal, 0);
  if (step < earliest || !refusal.empty()) return {{}, step, refusal};
  const fs::path checkpoint = checkpoints_directory(run) / checkpoint_name(step);
  std::string converted;
  TrainState state = load_checkpoint(checkpoint, session.info().parameters, session.state(),
                                     folder ? Trust::verified : Trust::unverified, [&](const std::string& text) {
                                       converted = text;
                                       log(text);
                                     });
  session.refresh_copies();
  state = at(std::move(state));
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
    entry.plateau_told = state.guard.plateau.told;
    entry.phase = 0;
    entry.same_start = false;
    entry.left_step = now.step;
    entry.why = why;
    folder->go_back(format_history(entry), state.step);
  }
  return {resume_at(state)};
}

}  // namespace llmc
