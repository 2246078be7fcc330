// Follows the training losses in a run's metrics.jsonl while its trainer writes it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

namespace llmc::sweep {

class Losses {
 public:
  explicit Losses(std::filesystem::path metrics) : path_(std::move(metrics)) {}

  /// Reads the lines added since the last call; all lines if the file was replaced, as a resume or a rollback does, or
  /// became shorter. A file that is missing or not readable has no lines.
  void update();

  /// Last step with a line; 0 if there is none.
  std::int64_t step() const { return steps_.empty() ? 0 : steps_.rbegin()->first; }
  /// Mean loss of the steps in (end - count, end]; nothing if there is no line of them. NaN if one is not finite.
  std::optional<double> mean(std::int64_t end, std::int64_t count) const;

 private:
  std::filesystem::path path_;
  std::pair<dev_t, ino_t> file_{};  // that was read
  std::uintmax_t read_ = 0;         // bytes
  std::map<std::int64_t, double> steps_;
};

}  // namespace llmc::sweep
