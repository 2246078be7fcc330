#include "files/atomic_directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "files/disk.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

constexpr char kTemporary[] = ".tmp-";
constexpr char kTrash[] = ".trash-";

bool entry_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

/// Best effort: leftovers have a hidden name and are removed before the next save.
void remove_tree(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

/// Removes a directory at the end of a function, on every return path.
struct RemovedAtTheEnd {
  fs::path path;
  ~RemovedAtTheEnd() {
    if (!path.empty()) remove_tree(path);
  }
};

}  // namespace

AtomicDirectory::AtomicDirectory(const fs::path& parent, const std::string& name, const Writer& writer)
    : parent_(parent), temporary_(path_of(parent, name)), final_(parent / name), writer_(writer) {
  remove_tree(temporary_);
  if (::mkdir(temporary_.c_str(), 0777) != 0) throw_errno("create", temporary_, writer_);
  owns_temporary_ = true;
}

AtomicDirectory::~AtomicDirectory() {
  if (owns_temporary_) remove_tree(temporary_);
}

fs::path AtomicDirectory::path_of(const fs::path& parent, const std::string& name) {
  return parent / (kTemporary + name);
}

fs::path AtomicDirectory::commit() {
  publish_directory(temporary_, final_, writer_);
  owns_temporary_ = false;
  return final_;
}

void publish_directory(const fs::path& temporary, const fs::path& target, const Writer& writer) {
  const fs::path parent = target.parent_path();
  sync_directory(temporary, writer);
  RemovedAtTheEnd old;
  if (!entry_exists(target)) {
    if (::rename(temporary.c_str(), target.c_str()) != 0) throw_errno("rename", temporary, writer);
  } else if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    old.path = temporary;
  } else if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) {
    // File systems without exchange (NFS): between the two renames the name is absent, but never half written.
    const fs::path trash = parent / (kTrash + target.filename().string());
    remove_tree(trash);
    if (::rename(target.c_str(), trash.c_str()) != 0) throw_errno("rename", target, writer);
    if (::rename(temporary.c_str(), target.c_str()) != 0) {
      const int code = errno;
      if (::rename(trash.c_str(), target.c_str()) != 0) throw_errno("rename back", trash, writer);
      errno = code;
      throw_errno("rename", temporary, writer);
    }
    old.path = trash;
  } else {
    throw_errno("rename", temporary, writer);
  }
  sync_directory(parent, writer);
}

void remove_directory(const fs::path& parent, const std::string& name, const Writer& writer) {
  const fs::path trash = parent / (kTrash + name);
  remove_tree(trash);
  if (::rename((parent / name).c_str(), trash.c_str()) != 0) throw_errno("rename", parent / name, writer);
  remove_tree(trash);
}

void remove_stale_directories(const fs::path& parent, const std::string& prefix) {
  std::vector<fs::path> stale;
  for (const fs::path& entry : disk::readable_entries(parent)) {
    const std::string name = entry.filename().string();
    if (name.starts_with(kTemporary + prefix) || name.starts_with(kTrash + prefix)) stale.push_back(entry);
  }
  for (const fs::path& path : stale) remove_tree(path);
}

}  // namespace llmc
