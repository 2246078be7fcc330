#include "checkpoint/nearby.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "error.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kNamed = 6;

std::vector<CheckpointEntry> readable_checkpoints(const fs::path& run) try {
  return list_checkpoints(run);
} catch (const Failure&) {
  return {};
}

/// The newest ones, oldest first: "step-00000100, step-00000200 and step-00000300".
std::string names(const std::vector<CheckpointEntry>& there) {
  const std::size_t first = there.size() > kNamed ? there.size() - kNamed : 0;
  std::string text = first == 0 ? "" : fmt::format("{} older ones, ", first);
  for (std::size_t i = first; i < there.size(); ++i)
    text += (i == first ? "" : i + 1 == there.size() ? " and " : ", ") + there[i].path.filename().string();
  return text;
}

}  // namespace

std::string checkpoints_near(const fs::path& missing) {
  const fs::path path = missing.has_filename() ? missing : missing.parent_path();
  const fs::path parent = path.parent_path();
  // RUN/checkpoints/NAME, or RUN/NAME.
  for (const fs::path& run : {parent.filename() == "checkpoints" ? parent.parent_path() : parent, parent}) {
    const std::vector<CheckpointEntry> there = readable_checkpoints(run);
    if (there.empty()) continue;
    return fmt::format(" ('{}' has {}; checkpoint.keep_last and checkpoint.keep_every decide which are kept)",
                       checkpoints_directory(run).string(), names(there));
  }
  return {};
}

}  // namespace llmc
