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

/// Of a run folder; nothing where there is none, it cannot be read, or its checkpoint is gone.
std::optional<Best> read_best(const std::filesystem::path& run);

/// The record that a run goes on with from a checkpoint of `step`: `noted` there, or, of a checkpoint without one,
/// best.json. Nothing where it is of another set than `set` or of a later step, or its checkpoint is gone from `run`.
std::optional<Best> best_of_run(const std::filesystem::path& run, const std::string& set, std::int64_t step,
                                const std::optional<Best>& noted);

/// Makes best.json say this, by one rename, where it does not; without a record there is no best.json. Throws
/// Failure(checkpoint).
void settle_best(const std::filesystem::path& run, const std::optional<Best>& best);

}  // namespace llmc
