#include "compiler/tools/report/unified.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

namespace llmc::report {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct Line {
  char mark;  // ' ', '-', '+'
  std::string text;
};

/// Finds the longest common subsequence by dynamic programming, after removing equal heads and tails. Kernels are
/// short, so the square table stays small.
std::vector<Line> align(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::size_t head = 0, tail = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
  while (tail < a.size() - head && tail < b.size() - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  const std::size_t n = a.size() - head - tail, m = b.size() - head - tail;
  std::vector<std::vector<int>> common(n + 1, std::vector<int>(m + 1, 0));
  for (std::size_t i = n; i-- > 0;)
    for (std::size_t j = m; j-- > 0;)
      common[i][j] =
          a[head + i] == b[head + j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  std::vector<Line> result;
  for (std::size_t i = 0; i < head; ++i) result.push_back({' ', a[i]});
  std::size_t i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && a[head + i] == b[head + j])
      result.push_back({' ', a[head + i]}), ++i, ++j;
    else if (i < n && (j == m || common[i + 1][j] >= common[i][j + 1]))
      result.push_back({'-', a[head + i++]});
    else
      result.push_back({'+', b[head + j++]});
  }
  for (std::size_t k = a.size() - tail; k < a.size(); ++k) result.push_back({' ', a[k]});
  return result;
}

}  // namespace

std::string unified_diff(const std::string& before, const std::string& after, const std::string& before_name,
                         const std::string& after_name, int context) {
  if (before == after) return "";
  const std::vector<Line> lines = align(lines_of(before), lines_of(after));
  std::vector<bool> shown(lines.size(), false);
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (lines[i].mark != ' ')
      for (std::size_t k = i < static_cast<std::size_t>(context) ? 0 : i - static_cast<std::size_t>(context);
           k < std::min(lines.size(), i + static_cast<std::size_t>(context) + 1); ++k)
        shown[k] = true;
  std::string out = fmt::format("--- {}\n+++ {}\n", before_name, after_name);
  std::size_t a = 1, b = 1;
  for (std::size_t i = 0; i < lines.size();) {
    if (!shown[i]) {
      ++a, ++b, ++i;
      continue;
    }
    std::string hunk;
    std::size_t a_count = 0, b_count = 0, end = i;
    for (; end < lines.size() && shown[end]; ++end) {
      hunk += lines[end].mark + lines[end].text + '\n';
      a_count += lines[end].mark != '+';
      b_count += lines[end].mark != '-';
    }
    // A side without lines in the hunk has the number of the line before it, as patch expects.
    out += fmt::format("@@ -{},{} +{},{} @@\n{}", a_count ? a : a - 1, a_count, b_count ? b : b - 1, b_count, hunk);
    a += a_count, b += b_count, i = end;
  }
  return out;
}

}  // namespace llmc::report
