// Lists and prunes the checkpoints of a run: `llmc checkpoint ls` and `prune`.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace llmc::checkpoints {

struct Listed {
  std::int64_t step = 0;
  std::filesystem::path path;
  std::string time;                   // UTC, "2026-01-31T12:00:00Z": when its manifest was written
  std::int64_t bytes = 0;             // of its files
  std::optional<double> val_loss;     // from validation_loss()
  std::optional<std::string> damage;  // as far as manifest and sizes show
};

struct Listing {
  std::vector<Listed> checkpoints;     // by ascending step
  std::vector<std::string> strangers;  // unlisted entries of their folder
};

/// Lists a run's checkpoints without reading tensors. Throws Failure(checkpoint) if `run` is not a run folder.
Listing list(const std::filesystem::path& run);

/// Returns the loss in nats per token of the leading set (spec::leading_set), if the run's metrics.jsonl has one of
/// this step.
std::optional<double> validation_loss(const std::filesystem::path& run, std::int64_t step);

std::string listing_text(const Listing& listing);
nlohmann::ordered_json listing_json(const Listing& listing);

/// Checkpoints of a run that stay, and the others.
struct Pruning {
  std::vector<Listed> removed;
  std::vector<Listed> kept;
  std::vector<Listed> damaged;  // left for their owner to examine
};

/// Applies checkpoint.keep_last and keep_every. Also keeps the checkpoint of best.json and the newest one whose
/// checksums, which are read, are right. Throws as list() does.
Pruning choose(const std::filesystem::path& run, const Retention& retention);

/// Removes the checkpoints that choose() removes, under the run folder's lock. Throws Failure(checkpoint) if a trainer
/// holds the lock, if the folder holds no run, or if one cannot be removed; those after it then stay.
Pruning prune(const std::filesystem::path& run, const Retention& retention, const Log& log);

}  // namespace llmc::checkpoints
