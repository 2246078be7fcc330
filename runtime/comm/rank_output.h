// Splits the output of ranks into lines and prefixes each with its rank.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

/// Splits bytes into lines. A very long line is split into parts.
class LineCutter {
 public:
  void add(std::string_view bytes) { rest_ += bytes; }
  std::optional<std::string> next();
  /// Text after the last line's end.
  std::optional<std::string> rest();

 private:
  std::string rest_;
};

/// A line with a tag of mpirun --tag-output: "[1,3]<stderr>:text".
struct TaggedLine {
  int rank;
  std::string_view text;
};

/// Open MPI 5 puts a space after each tag, version 4 none. So a line without a space shows version 4, whose lines may
/// begin with spaces of their own.
class TagReader {
 public:
  std::optional<TaggedLine> read(std::string_view line);

 private:
  bool spaced_ = true;
};

/// Rank that failed, from mpirun's own lines, the last of which it may lose, or from a line of a rank that waited for
/// it (watch.h); -1: unknown.
int blamed_rank(const std::vector<std::string>& lines);

/// Keeps the last lines of each rank.
class LastLines {
 public:
  explicit LastLines(int ranks) : lines_(static_cast<std::size_t>(ranks)) {}
  void add(int rank, std::string_view line);
  const std::deque<std::string>& of(int rank) const { return lines_[static_cast<std::size_t>(rank)]; }
  std::vector<std::string> all() const;

 private:
  std::vector<std::deque<std::string>> lines_;
};

}  // namespace llmc
