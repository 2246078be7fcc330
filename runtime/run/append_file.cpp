#include "run/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "files/durable_file.h"

namespace llmc {

AppendFile::AppendFile(const std::filesystem::path& path, int flags) : path_(path) {
  fd_ = open_own_file(path, O_RDWR | O_APPEND | flags);
  struct stat status{};
  if (::fstat(fd_, &status) != 0) {
    ::close(fd_);
    throw_errno("examine", path_);
  }
  bytes_ = status.st_size;
}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::append(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      if (written == 0) errno = ENOSPC;
      const int code = errno;
      if (done > 0 && ::ftruncate(fd_, bytes_) != 0) bytes_ += static_cast<std::int64_t>(done);
      errno = code;
      throw_errno("write", path_);
    }
    done += static_cast<std::size_t>(written);
  }
  bytes_ += static_cast<std::int64_t>(bytes.size());
}

void AppendFile::cut(std::int64_t bytes) {
  if (bytes == bytes_) return;
  if (::ftruncate(fd_, bytes) != 0) throw_errno("cut", path_);
  bytes_ = bytes;
}

}  // namespace llmc
