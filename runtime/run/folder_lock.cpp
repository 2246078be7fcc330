#include "run/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "error.h"
#include "files/durable_file.h"

namespace llmc {

FolderLock::FolderLock(const std::filesystem::path& directory, const std::string& advice, const Log& log) {
  const std::filesystem::path path = directory / "state" / "lock";
  do fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) throw_errno("open", path);
  int result;
  do result = ::flock(fd_, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  if (result == 0) return;
  if (errno == EWOULDBLOCK) {
    ::close(fd_);
    throw Failure(Exit::checkpoint, "another trainer runs in '" + directory.string() + "'; wait for it, or " + advice);
  }
  if (log) log("the run folder '" + directory.string() + "' cannot be locked: " + std::strerror(errno));
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
