#include "compiler/tools/scale/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "spec/fingerprint.h"
#include "spec/schema/schema.h"
#include "spec/source.h"

namespace llmc::scale {

namespace {

/// Returns the lines that open the groups of `path` which are not open yet. `open`: the group of the line before.
std::string opened(const std::string& group, std::string& open) {
  std::string text;
  for (std::size_t end = 0; end != std::string::npos;) {
    end = group.find('.', end + 1);
    const std::string each = group.substr(0, end);
    if (open != each && !open.starts_with(each + "."))
      text += fmt::format("{:{}}{}:\n", "", 2 * std::ranges::count(each, '.'), spec::leaf_of(each));
  }
  open = group;
  return text;
}

}  // namespace

std::string as_yaml(std::span<const Change> changes, const std::string& base, std::span<const std::string> heading) {
  std::string text, open;
  for (const std::string& line : heading) text += fmt::format("# {}\n", spec::printable(line));
  text += fmt::format("extends: {}\n", spec::yaml_string(base));
  for (const Change& change : changes) {
    text += opened(spec::group_of(change.path), open);
    text += fmt::format("{:{}}{}: {}", "", 2 * std::ranges::count(change.path, '.'), spec::leaf_of(change.path),
                        change.after);
    text += change.formula.empty() ? "\n" : fmt::format("  # {}\n", change.formula);
  }
  return text;
}

}  // namespace llmc::scale
