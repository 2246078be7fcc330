// What ranks print, line by line, with the rank before each line.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

/// Cuts bytes into lines. A line that is very long comes in pieces.
class LineCutter {
 public:
  void add(std::string_view bytes) { rest_ += bytes; }
  std::optional<std::string> next();
  /// What came after the last line's end.
  std::optional<std::string> rest();

 private:
  std::string rest_;
};

/// A line that mpirun --tag-output put a tag before: "[1,3]<stderr>:text".
struct TaggedLine {
  int rank;
  std::string_view text;
};
std::optional<TaggedLine> read_tag(std::string_view line);

/// The rank that failed, by mpirun's own lines, of which it may lose the last, or by a line of a rank that waited for
/// it (watch.h); -1: none says it.
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
