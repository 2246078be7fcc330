// Appends to files with one JSON object per line (metrics.jsonl, samples.jsonl), and truncates them on resume.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "run/append_file.h"

namespace llmc {

/// Appends lines. Readers never see a partial line, except the last one while it is being written.
class JsonLines {
 public:
  /// Opens or creates the file and removes a torn last line left by a killed process. Throws Failure(checkpoint).
  explicit JsonLines(const std::filesystem::path& path);

  /// `line`: JSON without a line break. Throws Failure(checkpoint) if it cannot be written; the file is unchanged then.
  void append(std::string_view line);

 private:
  AppendFile file_;
};

inline constexpr std::size_t kMostLineBytes = std::size_t{4} << 20;  // no trainer writes a longer line

/// Reads the complete lines of a stream in bounded memory. Text after the last line break is incomplete and is ignored.
class LineReader {
 public:
  explicit LineReader(std::istream& in) : in_(in), buffer_(kMostLineBytes + 1) {}

  /// Returns false if no complete line is left. A line of more than kMostLineBytes is skipped and returned as empty.
  bool next(std::string& line);

 private:
  std::istream& in_;
  std::vector<char> buffer_;
};

/// Last complete line, without its line break; empty if there is none, if it is longer than kMostLineBytes, or if the
/// file cannot be read.
std::string last_line(const std::filesystem::path& path);

/// Rewrites `path` atomically without lines whose "step" is above `step`, and without lines that are not JSON objects
/// with a step, or are longer than kMostLineBytes. If there are such, except for a torn last line, the file as it was
/// is kept in a new folder set-aside-N next to it, and `log` is told once. A missing file is not an error. Throws
/// Failure(checkpoint).
void truncate_lines_after(const std::filesystem::path& path, std::int64_t step, const Log& log);

/// "step" of the last complete line that has one; nothing if there is none within the last MiB.
std::optional<std::int64_t> last_step(const std::filesystem::path& path);

}  // namespace llmc
