#include "compiler/tools/sweep/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "compiler/tools/sweep/record.h"
#include "error.h"
#include "files/disk.h"
#include "files/durable_file.h"
#include "spec/source.h"

namespace llmc::sweep {

namespace {

constexpr char kLock[] = "sweep.lock";
constexpr Writer kWriter{Exit::usage, "-o"};

/// Whether the folder holds a sweep, also one that was killed before it wrote its record.
bool is_ours(const std::filesystem::path& folder) {
  return disk::exists(folder / kFile, Exit::usage) || disk::exists(folder / kLock, Exit::usage);
}

}  // namespace

Folder::Folder(const std::filesystem::path& path) {
  if (disk::exists(path, Exit::usage) && !is_ours(path) && !disk::entries(path, Exit::usage).empty())
    throw Failure(Exit::usage, fmt::format("'{}' holds other files and no sweep. Write -o of a new folder",
                                           spec::printable(path.string())));
  make_directories(path, kWriter);
  path_ = disk::canonical(path, Exit::usage);
  lock_ = open_own_file(path_ / kLock, O_RDWR, kWriter);
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(lock_);
  throw Failure(Exit::usage, fmt::format("another llmc sweep works in '{}'. Wait for it, or write another -o",
                                         spec::printable(path.string())));
}

Folder::~Folder() { ::close(lock_); }

}  // namespace llmc::sweep
