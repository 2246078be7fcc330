// Files of one JSON object a line (metrics.jsonl, samples.jsonl): appended a whole line at a time, cut back on resume.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "run/append_file.h"

namespace llmc {

/// Appends lines. A reader never sees half of one, apart from the last while it is being written.
class JsonLines {
 public:
  /// Opens or creates; a torn last line, left by a killed process, is cut off. Throws Failure(checkpoint).
  explicit JsonLines(const std::filesystem::path& path);

  /// `line`: JSON without a line break. Throws Failure(checkpoint) when it cannot be written; then the file is as
  /// before.
  void append(std::string_view line);

 private:
  AppendFile file_;
};

/// The last line that is whole, without its line break; empty where there is none, and where the file cannot be read.
std::string last_line(const std::filesystem::path& path);

/// Rewrites `path` atomically without the lines whose "step" is above `step`, and without lines that are not JSON
/// objects with a step (a torn last line silently, others named to `log`). No file is no error. Throws
/// Failure(checkpoint).
void truncate_lines_after(const std::filesystem::path& path, std::int64_t step, const Log& log);

/// "step" of the last whole line; nothing where there is none that has one, within the last MiB.
std::optional<std::int64_t> last_step(const std::filesystem::path& path);

}  // namespace llmc
