#include "compiler/build/project_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "compiler/emit/project.h"
#include "error.h"

namespace llmc::build {

ProjectLock::ProjectLock(const std::filesystem::path& folder, const std::function<void(const std::string&)>& say) {
  emit::make_project_folder(folder);
  const std::string path = (folder / emit::kLockFile).string();
  // Closed by exec: a trainer that replaces llmc must not hold the lock.
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) throw Failure(Exit::usage, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  if (flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) say(fmt::format("waiting for another llmc that is building in {}", folder.string()));
  while (flock(file_, LOCK_EX) != 0)
    if (errno != EINTR) {
      const int error = errno;
      close(file_);
      throw Failure(Exit::usage, fmt::format("cannot lock {}: {}", path, std::strerror(error)));
    }
}

ProjectLock::~ProjectLock() { close(file_); }

}  // namespace llmc::build
