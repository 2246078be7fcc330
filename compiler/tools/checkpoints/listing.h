// The checkpoints of a run, and which of them are to go: `llmc checkpoint ls` and `prune`.
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
  std::optional<double> val_loss;     // as validation_loss()
  std::optional<std::string> damage;  // as far as manifest and sizes tell
};

struct Listing {
  std::vector<Listed> checkpoints;     // by step ascending
  std::vector<std::string> strangers;  // names of what else lies among them
};

/// Throws Failure(checkpoint) where `run` is no run folder. Reads no tensors.
Listing list(const std::filesystem::path& run);

/// Nats a token, of the set that leads (spec::leading_set), where the run's metrics.jsonl has one of this step.
std::optional<double> validation_loss(const std::filesystem::path& run, std::int64_t step);

std::string listing_text(const Listing& listing);
nlohmann::ordered_json listing_json(const Listing& listing);

/// Which checkpoints of a run stay, and what becomes of the others.
struct Pruning {
  std::vector<Listed> removed;
  std::vector<Listed> kept;
  std::vector<Listed> damaged;  // left for their owner to examine
};

/// By the rule of checkpoint.keep_last and keep_every, with two more: the newest checkpoint whose checksums are right,
/// which are read, stays, and so does that of best.json. Throws as list().
Pruning choose(const std::filesystem::path& run, const Retention& retention);

/// choose(), and removes those of `removed`, under the run folder's lock. Throws Failure(checkpoint): a trainer holds
/// the lock; the folder holds no run; one cannot be removed, and then none after it is.
Pruning prune(const std::filesystem::path& run, const Retention& retention, const Log& log);

}  // namespace llmc::checkpoints
