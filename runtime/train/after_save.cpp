#include "train/after_save.h"

#include <fmt/format.h>

#include "checkpoint/retention.h"
#include "train/guards.h"

namespace llmc {

namespace fs = std::filesystem;

void follow_save(RunFolder& folder, const RunMirror* mirror, const spec::Checkpoint& policy, const PublishedSave& kept,
                 const Log& log) {
  const auto attempt = [&](const auto& work) {
    try {
      work();
    } catch (const std::exception& failure) {  // the checkpoint itself is complete
      log(fmt::format("{}. Training continues", failure.what()));
    }
  };
  const Retention retention{policy.keep_last, policy.keep_every, kept.keep_before,
                            kept.best ? std::optional(kept.best->step) : std::nullopt};
  attempt([&] { folder.note_saved(kept.step); });
  // Comes before retention, which may remove the previous best checkpoint.
  if (policy.best != "none") attempt([&] { settle_best(folder.path(), kept.best); });
  if (mirror) attempt([&] { mirror->follow(kept.step, retention, log); });
  apply_retention(folder.path(), kept.step, retention, log);
}

std::vector<std::int64_t> kept_before(const Guard& guard, std::span<const std::int64_t> borders) {
  std::vector<std::int64_t> steps = guard.may_go_back_before();
  for (const std::int64_t border : borders) steps.push_back(border + 1);
  return steps;
}

void complete_save(RunFolder& folder, const RunMirror* mirror, const spec::Spec& values, const TrainState& state,
                   const fs::path& checkpoint, std::span<const std::int64_t> borders, const Log& log) {
  std::error_code error;
  if (!fs::equivalent(checkpoint, checkpoints_directory(folder.path()) / checkpoint_name(state.step), error)) return;
  const Guard guard(values.guards, values.optimizer.clip_norm, state.guard);
  const std::string& set = values.checkpoint.best;
  follow_save(folder, mirror, values.checkpoint,
              {state.step, best_of_run(folder.path(), set, state.step, state.best), kept_before(guard, borders)}, log);
}

}  // namespace llmc
