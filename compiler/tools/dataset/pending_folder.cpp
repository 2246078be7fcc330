#include "compiler/tools/dataset/pending_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <ctime>
#include <fstream>
#include <system_error>
#include <utility>

#include "error.h"
#include "files/atomic_directory.h"
#include "files/disk.h"
#include "host/ignored_signal.h"

namespace llmc::data {
namespace fs = std::filesystem;

namespace {

/// Signals that end this process: not those that it ignores.
sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (!is_ignored(signal)) sigaddset(&set, signal);
  return set;
}

/// Whether a process has ended. One that nobody has waited for still has its id, as in a container whose first process
/// does not wait for orphans: its state in /proc, after the name in parentheses, is Z.
bool has_ended(pid_t process) {
  if (::kill(process, 0) != 0) return errno == ESRCH;
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const std::size_t name = text.rfind(')');
  return name != std::string::npos && text.substr(name + 1).starts_with(" Z");
}

bool is_real_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(fs::symlink_status(path, ignored));
}

bool is_own(const fs::path& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

/// Locks the lock file of a folder. Returns its descriptor, or -1 and sets errno: EWOULDBLOCK if another process has
/// the lock or the folder.
int lock_folder(const fs::path& folder, int flags) {
  const fs::path path = folder / kWriterLock;
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
  if (file < 0) return -1;
  int error = 0;
  struct stat opened, named;
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    error = errno;
  } else if (::fstat(file, &opened) != 0 || ::lstat(path.c_str(), &named) != 0 || opened.st_ino != named.st_ino ||
             opened.st_dev != named.st_dev) {
    error = EWOULDBLOCK;  // renamed or removed since it was opened
  }
  if (error == 0) return file;
  ::close(file);
  errno = error;
  return -1;
}

}  // namespace

PendingFolder::Lock& PendingFolder::Lock::operator=(Lock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

PendingFolder::Lock::~Lock() {
  if (file_ >= 0) ::close(file_);
}

PendingFolder::PendingFolder(const fs::path& target, const Writer& writer, Check check, std::string kept)
    : target_(disk::absolute(target, writer.exit).lexically_normal()),
      writer_(writer),
      kept_(std::move(kept)),
      check_(std::move(check)),
      ending_(ending_signals()) {
  if (!target_.has_filename()) target_ = target_.parent_path();  // "out/"
  check_target();
  path_ = fmt::format("{}.partial-{}", target_.string(), ::getpid());
  std::error_code error;
  fs::create_directories(target_.parent_path(), error);
  if (!error) take_over_or_remove_orphans();
  if (!error && !taken_over_ && !fs::create_directory(path_, error) && !error)
    error = std::make_error_code(std::errc::file_exists);
  if (!error && !taken_over_) {
    lock_ = Lock(lock_folder(path_, O_CREAT | O_EXCL));
    // File systems without flock have only the process's id.
    if (!lock_ && (errno == EWOULDBLOCK || errno == ENOENT || errno == EEXIST)) throw_in_use(path_);
  }
  if (error)
    throw Failure(writer_.exit, fmt::format("cannot create '{}': {}. Choose another {}", path_.string(),
                                            error.message(), writer_.option));
  // Blocked before any other thread starts, so that only the watcher receives them.
  pthread_sigmask(SIG_BLOCK, &ending_, nullptr);
  try {
    watcher_ = std::thread([this] { watch(); });
  } catch (const std::system_error&) {
    remove();
    throw;
  }
}

PendingFolder::~PendingFolder() {
  done_ = true;
  watcher_.join();
  remove();
  pthread_sigmask(SIG_UNBLOCK, &ending_, nullptr);
}

void PendingFolder::remove() {
  const std::lock_guard<std::mutex> guard(mutex_);
  std::error_code ignored;
  if (path_.empty() || holds_kept(path_)) return;
  fs::remove_all(path_, ignored);
}

bool PendingFolder::holds_kept(const fs::path& folder) const {
  std::error_code ignored;
  return !kept_.empty() && fs::is_regular_file(fs::symlink_status(folder / kept_, ignored));
}

void PendingFolder::throw_in_use(const fs::path& folder) const {
  throw Failure(writer_.exit, fmt::format("another process writes to '{}'. Wait until it ends, or choose another {}",
                                          folder.string(), writer_.option));
}

void PendingFolder::watch() {
  const timespec wait{0, 50'000'000};
  while (!done_) {
    const int signal = sigtimedwait(&ending_, nullptr, &wait);
    if (signal < 0) continue;
    remove();
    ::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &ending_, nullptr);
    raise(signal);
  }
}

void PendingFolder::take_over_or_remove_orphans() {
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(path_, ignored))) take_over_or_remove(path_, ::getpid());
  const std::string start = target_.filename().string() + ".partial-";
  for (const fs::path& entry : disk::readable_entries(target_.parent_path())) {
    const std::string name = entry.filename().string();
    if (name.compare(0, start.size(), start) != 0 || entry.filename() == path_.filename()) continue;
    pid_t process = 0;
    const auto [end, error] = std::from_chars(name.data() + start.size(), name.data() + name.size(), process);
    if (error == std::errc() && end == name.data() + name.size() && process > 0) take_over_or_remove(entry, process);
  }
}

void PendingFolder::take_over_or_remove(const fs::path& entry, pid_t process) {
  const bool here = process == ::getpid(), folder = is_real_folder(entry);
  if (folder && !here && !is_own(entry)) return;
  Lock lock(folder ? lock_folder(entry, 0) : -1);
  if (folder && !lock && errno == EWOULDBLOCK) {
    if (here) throw_in_use(entry);
    return;
  }
  // A folder of an earlier version, or on a file system without flock, is judged by the process's id.
  if (!lock && !here && !has_ended(process)) return;
  std::error_code ignored;
  if (taken_over_ || !folder || !is_own(entry) || !holds_kept(entry)) {
    fs::remove_all(entry, ignored);  // a link is not followed
    return;
  }
  if (!lock) lock = Lock(lock_folder(entry, O_CREAT));
  if (!lock && errno == EWOULDBLOCK) return;
  std::error_code error;
  if (!here) fs::rename(entry, path_, error);
  if (error) return;
  taken_over_ = true;
  lock_ = std::move(lock);
}

void PendingFolder::publish() {
  check_target();  // it may have changed in the meantime
  const std::lock_guard<std::mutex> guard(mutex_);
  publish_directory(path_, target_, writer_);
  path_.clear();
  // Only now: a process that is killed before has lost nothing.
  std::error_code ignored;
  if (!kept_.empty()) fs::remove(target_ / kept_, ignored);
  fs::remove(target_ / kWriterLock, ignored);
}

void PendingFolder::check_target() const {
  std::error_code error;
  if (!disk::exists(target_, writer_.exit)) return;
  if (!fs::is_directory(target_, error) || fs::is_symlink(target_, error))
    throw Failure(writer_.exit,
                  fmt::format("'{}' exists and is not a folder. Choose another {}", target_.string(), writer_.option));
  for (const fs::path& entry : disk::entries(target_, writer_.exit)) check_(entry);
}

}  // namespace llmc::data
