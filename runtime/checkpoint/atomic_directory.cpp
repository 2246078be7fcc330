#include "checkpoint/atomic_directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "checkpoint/durable_file.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

constexpr char kTemporary[] = ".tmp-";
constexpr char kTrash[] = ".trash-";

bool entry_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

/// Best effort: what stays has a hidden name and is removed before the next save.
void remove_tree(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

AtomicDirectory::AtomicDirectory(const fs::path& parent, const std::string& name)
    : parent_(parent), temporary_(parent / (kTemporary + name)), final_(parent / name) {
  remove_tree(temporary_);
  if (::mkdir(temporary_.c_str(), 0777) != 0) throw_errno("create", temporary_);
  owns_temporary_ = true;
}

AtomicDirectory::~AtomicDirectory() {
  if (owns_temporary_) remove_tree(temporary_);
}

fs::path AtomicDirectory::commit() {
  sync_directory(temporary_);
  if (!entry_exists(final_)) {
    if (::rename(temporary_.c_str(), final_.c_str()) != 0) throw_errno("rename", temporary_);
    owns_temporary_ = false;
  } else if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, final_.c_str(), RENAME_EXCHANGE) == 0) {
    // The temporary name now holds the old directory, which the destructor removes.
  } else if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) {
    // A file system without exchange (NFS): between these renames the name is absent, never half.
    const fs::path trash = parent_ / (kTrash + final_.filename().string());
    remove_tree(trash);
    if (::rename(final_.c_str(), trash.c_str()) != 0) throw_errno("rename", final_);
    if (::rename(temporary_.c_str(), final_.c_str()) != 0) {
      const int code = errno;
      if (::rename(trash.c_str(), final_.c_str()) != 0) throw_errno("rename back", trash);
      errno = code;
      throw_errno("rename", temporary_);
    }
    owns_temporary_ = false;
    remove_tree(trash);
  } else {
    throw_errno("rename", temporary_);
  }
  sync_directory(parent_);
  return final_;
}

void remove_directory(const fs::path& parent, const std::string& name) {
  const fs::path trash = parent / (kTrash + name);
  remove_tree(trash);
  if (::rename((parent / name).c_str(), trash.c_str()) != 0) throw_errno("rename", parent / name);
  remove_tree(trash);
}

void remove_stale_directories(const fs::path& parent, const std::string& prefix) {
  std::vector<fs::path> stale;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kTemporary + prefix) || name.starts_with(kTrash + prefix)) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) remove_tree(path);
}

}  // namespace llmc
