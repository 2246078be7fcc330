#include "run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "checkpoint/manifest.h"
#include "checkpoint/retention.h"
#include "error.h"
#include "files/atomic_directory.h"
#include "files/durable_file.h"
#include "spec/fingerprint.h"
#include "spec/values.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

/// errno says why not.
bool try_lock(int fd, int kind) {
  int result;
  do result = ::flock(fd, kind | LOCK_NB);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

/// A descriptor that holds the lock until it is closed, also by a kill.
int lock_folder(const fs::path& path, const fs::path& directory, const Log& log) {
  int fd;
  do fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) throw_errno("open", path);
  if (try_lock(fd, LOCK_EX)) return fd;
  // Who looks whether the folder is locked (is_locked) holds the lock for a moment.
  for (int tries = 0; errno == EWOULDBLOCK && tries < 10; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (try_lock(fd, LOCK_EX)) return fd;
  }
  if (errno == EWOULDBLOCK) {
    ::close(fd);
    throw Failure(Exit::checkpoint,
                  "another trainer runs in '" + directory.string() + "'; wait for it, or choose another --run");
  }
  // Some network file systems have no locks; refusing to train there would help nobody.
  if (log) log("the run folder '" + directory.string() + "' cannot be locked: " + std::strerror(errno));
  return fd;
}

fs::path events_folder(const fs::path& directory) { return directory / "tensorboard"; }

void write_where_different(const fs::path& path, std::string_view content) {
  std::error_code ignored;
  if (fs::file_size(path, ignored) == content.size() && read_small_file(path, content.size()) == content) return;
  write_file_atomically(path, content);
}

}  // namespace

bool RunFolder::holds_run(const fs::path& directory) { return fs::exists(directory / "state" / "model"); }

bool RunFolder::is_locked(const fs::path& directory) {
  const int fd = ::open((directory / "state" / "lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = !try_lock(fd, LOCK_SH) && errno == EWOULDBLOCK;
  ::close(fd);
  return locked;
}

void RunFolder::check_model(const fs::path& directory, const spec::Spec& spec) {
  if (!holds_run(directory)) return;
  std::string theirs = read_small_file(directory / "state" / "model");
  if (!theirs.empty() && theirs.back() == '\n') theirs.pop_back();
  const std::string ours = spec::model_fingerprint(spec);
  if (theirs == ours) return;
  std::string keys;
  try {
    if (const auto text = spec_yaml(directory)) keys = spec::model_changes(spec::read_values(*text, "").spec, spec);
  } catch (const std::invalid_argument&) {  // the fingerprints say enough
  }
  throw Failure(Exit::checkpoint,
                "run folder '" + fs::absolute(directory).lexically_normal().string() +
                    "' holds a run of another model: " + (keys.empty() ? "'" + theirs + "' -> '" + ours + "'" : keys) +
                    "; choose another --run");
}

std::optional<std::string> RunFolder::spec_yaml(const fs::path& directory) {
  if (!fs::exists(directory / "spec.yaml")) return std::nullopt;
  return read_small_file(directory / "spec.yaml");
}

RunFolder::RunFolder(const fs::path& directory, const spec::Spec& spec, Log log)
    : directory_(fs::absolute(directory).lexically_normal()),
      log_(std::move(log)),
      model_(spec::model_fingerprint(spec) + "\n") {
  const fs::path state = directory_ / "state";
  make_directories(state);
  lock_ = lock_folder(state / "lock", directory_, log_);
  try {
    if (fs::exists(state / "model")) {
      check_model(directory_, spec);
    } else {
      // The fingerprint comes first, so files of ours without one belong to somebody else.
      for (const char* name :
           {"spec.yaml", "plan.json", "history.jsonl", "metrics.jsonl", "samples.jsonl", "checkpoints"})
        if (fs::exists(directory_ / name))
          throw Failure(Exit::checkpoint, "'" + directory_.string() + "' holds a '" + name +
                                              "' but is no run folder of this version; choose another --run");
      write_file_atomically(state / "model", model_);
    }
    remove_stale_directories(checkpoints_directory(directory_), kCheckpointPrefix);
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

RunFolder::~RunFolder() { ::close(lock_); }

std::string RunFolder::history(const fs::path& directory) {
  const fs::path path = directory / "history.jsonl";
  return fs::exists(path) ? read_small_file(path, std::uint64_t{1} << 30) : std::string();
}

void RunFolder::start(std::string_view spec_yaml, std::string_view plan_json, std::string_view history_line,
                      std::int64_t step) {
  for (const char* name : {"metrics.jsonl", "samples.jsonl"}) truncate_lines_after(directory_ / name, step, log_);
  cut_events_after(events_folder(directory_), step, log_);
  step_ = step;
  spec_yaml_ = spec_yaml;
  plan_json_ = plan_json;
  history_line_ = history_line;
  write_start();
}

void RunFolder::write_start() {
  metrics_ = std::make_unique<JsonLines>(directory_ / "metrics.jsonl");
  samples_ = std::make_unique<JsonLines>(directory_ / "samples.jsonl");
  events_ = std::make_unique<EventFile>(events_folder(directory_), step_);
  // The line comes first: what spec.yaml says has always been told.
  JsonLines(directory_ / "history.jsonl").append(history_line_);
  write_where_different(directory_ / "spec.yaml", spec_yaml_);
  write_where_different(directory_ / "plan.json", plan_json_);
}

bool RunFolder::renew() {
  const fs::path state = directory_ / "state";
  struct stat ours{}, there{};
  if (::stat((state / "lock").c_str(), &there) == 0) {
    if (::fstat(lock_, &ours) == 0 && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev) return false;
    // Some network file systems number a file anew; the start that was noted last is this one's or not.
    if (history().ends_with(history_line_ + "\n")) return false;
    throw Failure(Exit::checkpoint, "'" + directory_.string() +
                                        "' was removed while this run was training, and another run was started in it");
  }
  // Else the file system is in trouble, or somebody removed the lock alone: the save will show which.
  if (errno != ENOENT || fs::exists(state / "model")) return false;
  make_directories(state);
  const int lock = lock_folder(state / "lock", directory_, log_);
  ::close(lock_);
  lock_ = lock;
  write_file_atomically(state / "model", model_);
  write_start();
  return true;
}

void RunFolder::append_metrics(std::string_view json) { metrics_->append(json); }
void RunFolder::append_sample(std::string_view json) { samples_->append(json); }

}  // namespace llmc
