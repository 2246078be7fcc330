// The lines of a growing file from its end, since what a run did last stands there and the file may be large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace llmc::runs {

inline constexpr std::size_t kMostLineBytes = std::size_t{4} << 20;  // no trainer writes a longer line

class LastLines {
 public:
  /// A file that is not there has no lines. Throws Failure(checkpoint) where it cannot be read, as next() does for a
  /// line of more than kMostLineBytes.
  explicit LastLines(const std::filesystem::path& path);

  /// The line before the one that was given last, at first the last one, without its line break. What stands behind the
  /// last line break is being written, or was left by a kill, and is no line.
  std::optional<std::string> next();

 private:
  /// Takes the block before what was read in front of `text_`; false at the beginning of the file.
  bool read_more();

  std::filesystem::path path_;
  std::ifstream in_;
  std::uint64_t left_ = 0;  // bytes before those of `text_`
  std::string text_;        // ends behind the line break of the next line
};

}  // namespace llmc::runs
