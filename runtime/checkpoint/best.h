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

/// Replaces it by one rename. Throws Failure(checkpoint).
void write_best(const std::filesystem::path& run, const Best& best);

}  // namespace llmc
