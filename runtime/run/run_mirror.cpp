#include "run/run_mirror.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoint/mirror.h"
#include "checkpoint/retention.h"
#include "error.h"
#include "files/atomic_directory.h"
#include "files/disk.h"
#include "run/planted_links.h"
#include "run/run_id.h"
#include "spec/source.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Run that a mirror belongs to.
struct Mark {
  std::string id;
  fs::path folder;

  /// Returns whether that run is still in its folder.
  bool is_there() const { return !id.empty() && run_id(folder) == id; }
};

fs::path mark_file(const fs::path& mirror) { return mirror / "state" / "mirror_of"; }

/// A mark that cannot be read belongs to no run.
std::optional<Mark> read_mark(const fs::path& mirror) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(mark_file(mirror), error))) return std::nullopt;
  try {
    const Json text = Json::parse(read_small_file(mark_file(mirror)));
    return Mark{text.at("run").get<std::string>(), text.at("folder").get<std::string>()};
  } catch (const Json::exception&) {
    return Mark{};
  }
}

void write_mark(const fs::path& mirror, const RunMirror::Start& start) {
  const Json text = {{"run", start.id}, {"folder", start.run.string()}};
  replace_where_different(mark_file(mirror), text.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n",
                          kMirrorWriter);
}

FolderLock lock_mirror(const fs::path& mirror, const fs::path& run, const Log& log) {
  refuse_planted_links(mirror, kMirrorWriter);
  check_mirror(mirror, run);
  make_directories(mirror / "state", kMirrorWriter);
  return FolderLock(mirror, "give this run another checkpoint.mirror", log, kMirrorWriter);
}

bool same_folder(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error);
}

/// Removes a trailing slash.
fs::path plain(const fs::path& folder) { return folder.has_filename() ? folder : folder.parent_path(); }

/// Advice for a mirror that belongs to another run.
std::string another(const fs::path& mirror, const fs::path& run) {
  return fmt::format("Give this run a mirror of its own, such as checkpoint.mirror={}-{}",
                     spec::printable(plain(mirror).string()), spec::printable(plain(run).filename().string()));
}

[[noreturn]] void refuse(const fs::path& mirror, const std::string& why) {
  throw Failure(Exit::checkpoint, fmt::format("checkpoint.mirror '{}' {}", spec::printable(mirror.string()), why));
}

/// For a mirror without a mark: throws if its checkpoints are not the run's.
void check_contents(const fs::path& mirror, const std::vector<CheckpointEntry>& there, const RunMirror::Start& start,
                    bool from_here) {
  bool known = from_here;
  for (const CheckpointEntry& copy : there) {
    const fs::path own = checkpoints_directory(start.run) / copy.path.filename();
    std::error_code error;
    if (!fs::exists(own, error)) continue;
    if (!same_manifest(own, copy.path))
      refuse(mirror, fmt::format("has checkpoints of another run: '{}' differs from this run's. {}",
                                 copy.path.filename().string(), another(mirror, start.run)));
    known = true;
  }
  if (!known)
    refuse(mirror, fmt::format("has checkpoints, none of which is in the run folder: they are of another run, or older "
                               "than all of this one's. {}, or remove them",
                               another(mirror, start.run)));
}

/// Throws if the mirror belongs to another run.
void check_owner(const fs::path& mirror, const std::vector<CheckpointEntry>& there, const RunMirror::Start& start,
                 const Log& log) {
  const bool from_here = same_folder(start.checkpoint.parent_path(), checkpoints_directory(mirror));
  const std::optional<Mark> mark = read_mark(mirror);
  if (!mark) return check_contents(mirror, there, start, from_here || there.empty());
  const std::string owner = spec::printable(mark->folder.string());
  if (mark->id == start.id) {
    if (mark->is_there() && !same_folder(mark->folder, start.run))
      refuse(mirror, fmt::format("belongs to the run in '{}', of which '{}' is a copy. {}", owner,
                                 spec::printable(start.run.string()), another(mirror, start.run)));
    return;
  }
  if (there.empty()) return;
  if (mark->is_there() || !from_here)
    refuse(mirror, fmt::format("belongs to the run in '{}'. {}{}", owner, another(mirror, start.run),
                               mark->is_there() ? ""
                                                : fmt::format(", or resume from this one by --resume {}",
                                                              spec::printable(mirror.string()))));
  if (log)
    log(fmt::format("checkpoint.mirror '{}' belonged to the run in '{}', which is gone. It now belongs to this run",
                    spec::printable(mirror.string()), owner));
}

/// Throws if the mirror has checkpoints later than the step this run resumes from: they would mix with its own.
void check_newest(const fs::path& mirror, const std::vector<CheckpointEntry>& there, const RunMirror::Start& start) {
  if (there.empty() || there.back().step <= start.step) return;
  const std::vector<CheckpointEntry> own = list_checkpoints(start.run);
  for (const CheckpointEntry& copy : there) {
    // If the run folder also has this checkpoint, its copy there is damaged and was skipped; it will be rewritten.
    if (copy.step <= start.step || std::ranges::find(own, copy.step, &CheckpointEntry::step) != own.end()) continue;
    refuse(mirror, fmt::format("has '{}', but this run resumes at step {}. Resume from the newer one by --resume {}, "
                               "or remove the newer ones from the mirror too",
                               copy.path.filename().string(), start.step, spec::printable(mirror.string())));
  }
}

}  // namespace

std::int64_t mirror_interval(std::int64_t every, std::int64_t mirror_every) {
  if (mirror_every <= 1 || every <= 0) return 0;
  std::int64_t steps = 0;
  return __builtin_mul_overflow(every, mirror_every, &steps) ? std::numeric_limits<std::int64_t>::max() : steps;
}

RunMirror::RunMirror(const fs::path& path, const Start& start, std::int64_t interval, const Log& log)
    : path_(disk::absolute(path, Exit::checkpoint).lexically_normal()),
      run_(start.run),
      interval_(interval),
      lock_(lock_mirror(path_, run_, log)) {
  const std::vector<CheckpointEntry> there = list_checkpoints(path_);
  check_owner(path_, there, start, log);
  check_newest(path_, there, start);
  write_mark(path_, start);
  remove_stale_directories(checkpoints_directory(path_), kCheckpointPrefix);
}

/// Compares with the mirror's newest earlier copy, so that a restart or an extra save does not shift the interval.
bool RunMirror::due(std::int64_t step) const {
  if (interval_ == 0) return true;
  std::int64_t newest = 0;
  for (const CheckpointEntry& copy : list_checkpoints(path_))
    if (copy.step < step) newest = copy.step;
  return step / interval_ > newest / interval_;
}

void RunMirror::follow(std::int64_t step, const Retention& retention, const Log& log) const {
  const fs::path checkpoint = checkpoints_directory(run_) / checkpoint_name(step);
  if (same_manifest(checkpoint, checkpoints_directory(path_) / checkpoint_name(step)))
    return apply_retention(path_, step, retention, log);
  if (due(step)) mirror_checkpoint(checkpoint, step, path_, retention, log);
}

void RunMirror::remove_after(std::int64_t step) const { remove_checkpoints_after(path_, step); }

}  // namespace llmc
