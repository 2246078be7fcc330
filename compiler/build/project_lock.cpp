#include "compiler/build/project_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "compiler/emit/project.h"
#include "error.h"
#include "files/durable_file.h"

namespace llmc::build {

ProjectLock::ProjectLock(const std::filesystem::path& folder, const std::function<void(const std::string&)>& say) {
  emit::make_project_folder(folder);
  const std::filesystem::path path = folder / emit::kLockFile;
  // Closed by exec: a trainer that replaces llmc must not hold the lock.
  file_ = open_own_file(path, O_RDWR, {Exit::usage, "-o"});
  if (flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) say(fmt::format("waiting for another llmc that is building in {}", folder.string()));
  while (flock(file_, LOCK_EX) != 0)
    if (errno != EINTR) {
      const int error = errno;
      close(file_);
      throw Failure(Exit::usage, fmt::format("cannot lock {}: {}", path.string(), std::strerror(error)));
    }
}

ProjectLock::~ProjectLock() { close(file_); }

}  // namespace llmc::build
