#include "comm/rank_output.h"

#include <charconv>
#include <utility>

namespace llmc {
namespace {

constexpr std::size_t kLongestLine = 65536;
constexpr std::size_t kLastLines = 12;

/// Number at the beginning, followed by `end`; -1: none.
int leading_number(std::string_view text, char end) {
  int value = -1;
  const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && value >= 0 && next != text.data() + text.size() && *next == end ? value : -1;
}

}  // namespace

std::optional<std::string> LineCutter::next() {
  const std::size_t end = rest_.find('\n');
  if (end == std::string::npos && rest_.size() < kLongestLine) return std::nullopt;
  std::string line = rest_.substr(0, end);
  rest_.erase(0, end == std::string::npos ? end : end + 1);
  return line;
}

std::optional<std::string> LineCutter::rest() {
  if (rest_.empty()) return std::nullopt;
  return std::exchange(rest_, "");
}

std::optional<TaggedLine> TagReader::read(std::string_view line) {
  // Some releases put the job's name before the numbers: "[prterun-host-71@1,3]<stdout>: text".
  const std::size_t comma = line.find(','), end = line.find(']');
  if (!line.starts_with('[') || comma == std::string_view::npos || end == std::string_view::npos || comma > end)
    return std::nullopt;
  const int rank = leading_number(line.substr(comma + 1), ']');
  std::string_view text = line.substr(end + 1);
  if (rank < 0 || !text.starts_with("<std")) return std::nullopt;
  const std::size_t begin = text.find(">:");
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin + 2);
  spaced_ = spaced_ && text.starts_with(' ');
  if (spaced_) text.remove_prefix(1);
  return TaggedLine{rank, text};
}

int blamed_rank(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    // "  Process name: [[63187,1],2]" above an exit code; in version 5 "[prterun-host-71@1,2]".
    if (const std::size_t name = line.find("Process name: ["); name != std::string::npos) {
      const std::size_t comma = line.rfind(',');
      if (comma > name && comma != std::string::npos) return leading_number(line.substr(comma + 1), ']');
    }
    // "mpirun noticed that process rank 2 with PID 71 on node a exited on signal 9 (Killed)."
    constexpr std::string_view kRank = "process rank ";
    if (const std::size_t rank = line.find(kRank); rank != std::string::npos)
      return leading_number(line.substr(rank + kRank.size()), ' ');
    // "error: rank 2 (host b) is lost: its process ended without a message"
    constexpr std::string_view kLost = "error: rank ";
    if (line.starts_with(kLost) && line.find(") is lost: ") != std::string::npos)
      return leading_number(std::string_view(line).substr(kLost.size()), ' ');
  }
  return -1;
}

std::vector<std::string> LastLines::all() const {
  std::vector<std::string> lines;
  for (const std::deque<std::string>& of_rank : lines_) lines.insert(lines.end(), of_rank.begin(), of_rank.end());
  return lines;
}

void LastLines::add(int rank, std::string_view line) {
  if (rank < 0 || rank >= static_cast<int>(lines_.size())) return;
  std::deque<std::string>& lines = lines_[static_cast<std::size_t>(rank)];
  lines.emplace_back(line);
  if (lines.size() > kLastLines) lines.pop_front();
}

}  // namespace llmc
