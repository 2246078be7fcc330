#include "checkpoint/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "checkpoint/atomic_directory.h"
#include "checkpoint/durable_file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/retention.h"
#include "error.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

/// A descriptor that holds the lock until it is closed, also by a kill.
int lock_folder(const fs::path& path, const fs::path& directory, const Log& log) {
  int fd;
  do fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) throw_errno("open", path);
  int result;
  do result = ::flock(fd, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  if (result == 0) return fd;
  if (errno == EWOULDBLOCK) {
    ::close(fd);
    throw Failure(Exit::checkpoint,
                  "another trainer runs in '" + directory.string() + "'; wait for it, or choose another --run");
  }
  // Some network file systems have no locks; refusing to train there would help nobody.
  if (log) log("the run folder '" + directory.string() + "' cannot be locked: " + std::strerror(errno));
  return fd;
}

void write_where_different(const fs::path& path, std::string_view content) {
  std::error_code ignored;
  if (fs::file_size(path, ignored) == content.size() && read_small_file(path, content.size()) == content) return;
  write_file_atomically(path, content);
}

}  // namespace

RunFolder::RunFolder(const fs::path& directory, const std::string& fingerprint, std::string_view spec_yaml,
                     std::string_view plan_json, Log log)
    : directory_(fs::absolute(directory).lexically_normal()), log_(std::move(log)) {
  const fs::path state = directory_ / "state";
  make_directories(state);
  lock_ = lock_folder(state / "lock", directory_, log_);
  try {
    if (fs::exists(state / "fingerprint")) {
      std::string theirs = read_small_file(state / "fingerprint");
      if (!theirs.empty() && theirs.back() == '\n') theirs.pop_back();
      if (theirs != fingerprint)
        throw Failure(Exit::checkpoint, "run folder '" + directory_.string() + "' belongs to spec '" + theirs +
                                            "', this trainer was compiled from '" + fingerprint +
                                            "'; choose another --run, or see `llmc diff` for what changed");
    } else {
      // The fingerprint comes first, so files of ours without one belong to somebody else.
      for (const char* name : {"spec.yaml", "plan.json", "metrics.jsonl", "samples.jsonl", "checkpoints"})
        if (fs::exists(directory_ / name))
          throw Failure(Exit::checkpoint, "'" + directory_.string() + "' holds a '" + name +
                                              "' but is no run folder; choose another --run");
      write_file_atomically(state / "fingerprint", fingerprint + "\n");
    }
    write_where_different(directory_ / "spec.yaml", spec_yaml);
    write_where_different(directory_ / "plan.json", plan_json);
    remove_stale_directories(checkpoints_directory(directory_), kCheckpointPrefix);
    metrics_ = std::make_unique<JsonLines>(directory_ / "metrics.jsonl");
    samples_ = std::make_unique<JsonLines>(directory_ / "samples.jsonl");
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

RunFolder::~RunFolder() { ::close(lock_); }

void RunFolder::append_metrics(std::string_view json) { metrics_->append(json); }
void RunFolder::append_sample(std::string_view json) { samples_->append(json); }

void RunFolder::truncate_after(std::int64_t step) {
  for (auto* lines : {&metrics_, &samples_}) {
    const fs::path path = directory_ / (lines == &metrics_ ? "metrics.jsonl" : "samples.jsonl");
    truncate_lines_after(path, step, log_);
    *lines = std::make_unique<JsonLines>(path);  // the old descriptor points to the replaced file
  }
}

}  // namespace llmc
