// checkpoints/best.json: the checkpoint with the lowest validation loss, which retention keeps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace llmc {

struct Best {
  std::int64_t step = 0;
  std::string validation;  // name of the set
  double loss = 0;         // nats a target

  bool operator==(const Best&) const = default;
};

/// Path of best.json in a run folder.
std::filesystem::path best_file(const std::filesystem::path& run);

/// Reads best.json of a run folder. Nothing if it is missing or its checkpoint is gone. Throws Failure(checkpoint) if
/// it is damaged: without it the best checkpoint would be removed and its loss forgotten.
std::optional<Best> read_best(const std::filesystem::path& run);

/// Record that a run resuming from a checkpoint of `step` continues: `noted` there, or best.json for a checkpoint
/// without one. Nothing if `set` is none, if it belongs to another set or a later step, or if its checkpoint is gone
/// from `run`.
std::optional<Best> best_of_run(const std::filesystem::path& run, const std::string& set, std::int64_t step,
                                const std::optional<Best>& noted);

/// Writes best.json by one rename if it differs; removes it if there is no record. Throws Failure(checkpoint).
void settle_best(const std::filesystem::path& run, const std::optional<Best>& best);

}  // namespace llmc
