// Reads a growing file's lines from its end, because the newest are there and the file may be large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace llmc::runs {

class ReverseLines {
 public:
  /// A missing file has no lines. Throws Failure(checkpoint) if the file cannot be read; next() does so for a line of
  /// more than kMostLineBytes.
  explicit ReverseLines(const std::filesystem::path& path);

  /// Returns the line before the previous result, at first the last line, without its line break. Text after the last
  /// line break is incomplete and is ignored.
  std::optional<std::string> next();

 private:
  /// Prepends the previous block of the file to `text_`. Returns false at the beginning of the file.
  bool read_more();

  std::filesystem::path path_;
  std::ifstream in_;
  std::uint64_t left_ = 0;  // bytes before those of `text_`
  std::string text_;        // ends after the line break of the next line
};

}  // namespace llmc::runs
