#include "changes.h"

#include <algorithm>
#include <sstream>
#include <vector>

namespace llmc::passes {
namespace {

struct Line {
  std::string region;  // empty for tensors
  std::string name;    // of the tensor or op; unaffected by a change
  std::string text;
};

std::vector<Line> lines_of(const std::string& graph) {
  std::vector<Line> lines;
  std::string region;
  std::istringstream in(graph);
  for (std::string text; std::getline(in, text);) {
    const bool begins = text.starts_with("region ");
    if (begins) region = text.substr(0, text.find(" ("));
    lines.push_back(
        {region, begins ? region : text.substr(0, text.find_first_of(" :=", text.find_first_not_of(' '))), text});
  }
  return lines;
}

bool same_op(const Line& a, const Line& b) { return a.name == b.name && a.region == b.region; }

/// [i][j]: number of ops that the lists from a[i] and from b[j] on have in common, in the same order.
std::vector<std::vector<int>> common_ops(const std::vector<Line>& a, const std::vector<Line>& b) {
  std::vector<std::vector<int>> common(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;)
    for (std::size_t j = b.size(); j-- > 0;)
      common[i][j] = same_op(a[i], b[j]) ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  return common;
}

}  // namespace

std::string changes(const std::string& before, const std::string& after) {
  const std::vector<Line> a = lines_of(before), b = lines_of(after);
  const auto common = common_ops(a, b);
  std::string out, region;
  const auto enter = [&](const Line& line) {
    if (line.region != region && line.region != line.name) out += line.region + "\n";
    region = line.region;
  };
  const auto say = [&](char mark, const Line& line) {
    enter(line);
    out += mark + line.text + "\n";
  };
  bool follows = false;  // whether the previous line in `after` was printed
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && same_op(a[i], b[j])) {
      follows = a[i].text != b[j].text;
      if (follows) say('-', a[i]), say('+', b[j]);
      ++i, ++j;
    } else if (i < a.size() && (j == b.size() || common[i + 1][j] >= common[i][j + 1])) {
      say('-', a[i++]);
    } else {
      if (!follows && j > 0 && b[j - 1].region == b[j].region) {
        enter(b[j]);
        out += " behind " + b[j - 1].name.substr(b[j - 1].name.find_first_not_of(' ')) + "\n";
      }
      say('+', b[j++]);
      follows = true;
    }
  }
  return out;
}

}  // namespace llmc::passes
