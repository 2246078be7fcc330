// Work after a checkpoint has been published. If a kill interrupts it, the next start completes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/best.h"
#include "checkpoint/checkpoint.h"
#include "run/run_folder.h"
#include "run/run_mirror.h"
#include "spec/spec.h"
#include "train/guards.h"

namespace llmc {

/// State of the run when the checkpoint of `step` was published.
struct PublishedSave {
  std::int64_t step = 0;
  std::optional<Best> best;               // the best so far, this step included; nothing without checkpoint.best
  std::vector<std::int64_t> keep_before;  // as Retention's
};

/// Records the save, writes best.json, updates the mirror (null: none), and applies retention. Each part is attempted
/// even if others fail; failures are reported to `log`. Idempotent. Rank 0 only.
void follow_save(RunFolder& folder, const RunMirror* mirror, const spec::Checkpoint& policy, const PublishedSave& kept,
                 const Log& log);

/// Steps of Retention::keep_before: those that a rollback may need, and those after the borders of phases, so that the
/// checkpoints of the borders are kept.
std::vector<std::int64_t> kept_before(const Guard& guard, std::span<const std::int64_t> borders);

/// Same as follow_save(), when starting from the checkpoint with `state`, if it is in this run's folder.
void complete_save(RunFolder& folder, const RunMirror* mirror, const spec::Spec& values, const TrainState& state,
                   const std::filesystem::path& checkpoint, std::span<const std::int64_t> borders, const Log& log);

}  // namespace llmc
