#include "checkpoint/retention.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "error.h"
#include "files/atomic_directory.h"
#include "files/disk.h"

namespace llmc {

namespace fs = std::filesystem;

fs::path checkpoints_directory(const fs::path& run) { return run / "checkpoints"; }

fs::path run_of(const fs::path& checkpoint) {
  const fs::path parent =
      disk::absolute(checkpoint / "", Exit::checkpoint).lexically_normal().parent_path().parent_path();
  return parent == checkpoints_directory(parent.parent_path()) ? parent.parent_path() : fs::path();
}

std::string checkpoint_name(std::int64_t step) {
  if (step < 0) throw Failure(Exit::internal, "a checkpoint of a negative step");
  char text[32];
  std::snprintf(text, sizeof text, "%s%08lld", kCheckpointPrefix, static_cast<long long>(step));
  return text;
}

std::vector<CheckpointEntry> list_checkpoints(const fs::path& run) {
  constexpr std::size_t kPrefixLength = sizeof kCheckpointPrefix - 1;
  std::vector<CheckpointEntry> checkpoints;
  std::error_code error;
  for (fs::directory_iterator it(checkpoints_directory(run), error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::int64_t step = -1;
    if (!name.starts_with(kCheckpointPrefix)) continue;
    const auto parsed = std::from_chars(name.data() + kPrefixLength, name.data() + name.size(), step);
    if (parsed.ec == std::errc() && step >= 0 && name == checkpoint_name(step))
      checkpoints.push_back({step, it->path()});
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw Failure(Exit::checkpoint,
                  "cannot list '" + checkpoints_directory(run).string() + "': " + error.message() + "; check the path");
  std::sort(checkpoints.begin(), checkpoints.end(),
            [](const CheckpointEntry& a, const CheckpointEntry& b) { return a.step < b.step; });
  return checkpoints;
}

bool was_removed(const fs::path& checkpoint) {
  std::error_code error;
  return fs::symlink_status(checkpoint, error).type() == fs::file_type::not_found;
}

void apply_retention(const fs::path& run, std::int64_t saved, const Retention& retention, const Log& log) try {
  if (retention.keep_last <= 0) return;
  std::vector<CheckpointEntry> checkpoints = list_checkpoints(run);
  std::reverse(checkpoints.begin(), checkpoints.end());
  std::int64_t kept = 0;
  std::vector<std::int64_t> before = retention.keep_before;
  for (const CheckpointEntry& checkpoint : checkpoints) {
    if (checkpoint.step > saved) continue;
    if (const auto damage = find_checkpoint_damage(checkpoint, Depth::sizes)) {
      if (log) log("checkpoint '" + checkpoint.path.string() + "' is damaged and was not removed: " + *damage);
      continue;
    }
    const bool wanted = std::erase_if(before, [&](std::int64_t step) { return checkpoint.step < step; }) > 0;
    if (kept < retention.keep_last || checkpoint.step == saved) {
      ++kept;
    } else if (!wanted && (retention.keep_every <= 0 || checkpoint.step % retention.keep_every != 0) &&
               checkpoint.step != retention.best) {
      remove_directory(checkpoints_directory(run), checkpoint.path.filename().string());
    }
  }
} catch (const Failure& failure) {
  if (log) log(std::string("an old checkpoint was not removed: ") + failure.what());
}

void remove_checkpoints_after(const fs::path& run, std::int64_t step) {
  const std::vector<CheckpointEntry> checkpoints = list_checkpoints(run);
  for (auto it = checkpoints.rbegin(); it != checkpoints.rend() && it->step > step; ++it)
    remove_directory(checkpoints_directory(run), it->path.filename().string());
}

}  // namespace llmc
