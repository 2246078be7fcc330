#include "run/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "error.h"
#include "run/planted_links.h"

namespace llmc {

namespace {

/// Sets errno on failure.
bool try_lock(int fd, int kind) {
  int result;
  do result = ::flock(fd, kind | LOCK_NB);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

}  // namespace

bool FolderLock::is_held(const std::filesystem::path& directory) {
  // O_NONBLOCK: opening a pipe would wait for its writer.
  const int fd = ::open((directory / "state" / "lock").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const bool held = !try_lock(fd, LOCK_SH) && errno == EWOULDBLOCK;
  ::close(fd);
  return held;
}

FolderLock::FolderLock(const std::filesystem::path& directory, const std::string& advice, const Log& log,
                       const Writer& writer) {
  refuse_planted_links(directory, writer);  // every writer of the folder takes the lock first
  const std::filesystem::path path = directory / "state" / "lock";
  // Some file systems number a file anew at each look.
  for (int tries = 0; !lock(path, directory, advice, log, writer) && tries < 10; ++tries) {
    ::close(std::exchange(fd_, -1));
    make_directories(path.parent_path());
  }
}

/// Returns false if the file was removed before it was locked: by a start that failed, which leaves nothing behind. A
/// lock on it would keep nobody out.
bool FolderLock::lock(const std::filesystem::path& path, const std::filesystem::path& directory,
                      const std::string& advice, const Log& log, const Writer& writer) {
  fd_ = open_own_file(path, O_RDWR, writer);
  bool locked = try_lock(fd_, LOCK_EX);
  // is_held() takes the lock for a moment, so a failure is retried.
  for (int tries = 0; !locked && errno == EWOULDBLOCK && tries < 10; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    locked = try_lock(fd_, LOCK_EX);
  }
  if (locked) {
    struct stat there{};
    return ::lstat(path.c_str(), &there) == 0 && holds(there);
  }
  if (errno == EWOULDBLOCK) {
    ::close(fd_);
    throw Failure(Exit::checkpoint, "another trainer runs in '" + directory.string() + "'. Wait for it, or " + advice);
  }
  if (log) log("the folder '" + directory.string() + "' cannot be locked: " + std::strerror(errno));
  return true;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

bool FolderLock::holds(const struct stat& file) const {
  struct stat ours{};
  return ::fstat(fd_, &ours) == 0 && ours.st_ino == file.st_ino && ours.st_dev == file.st_dev;
}

}  // namespace llmc
