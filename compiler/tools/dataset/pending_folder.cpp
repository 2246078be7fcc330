#include "compiler/tools/dataset/pending_folder.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <ctime>
#include <fstream>
#include <system_error>

#include "error.h"
#include "files/atomic_directory.h"
#include "files/disk.h"

namespace llmc::data {
namespace fs = std::filesystem;

namespace {

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
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

}  // namespace

PendingFolder::PendingFolder(const fs::path& target, const Writer& writer, Check check, std::string kept)
    : target_(disk::absolute(target, writer.exit).lexically_normal()),
      writer_(writer),
      kept_(std::move(kept)),
      check_(std::move(check)) {
  if (!target_.has_filename()) target_ = target_.parent_path();  // "out/"
  check_target();
  path_ = fmt::format("{}.partial-{}", target_.string(), ::getpid());
  std::error_code error;
  fs::create_directories(target_.parent_path(), error);
  if (!error) fs::remove_all(path_, error);  // of an earlier process with the same id; a link is not followed
  look_after_orphans();
  if (!error && !taken_over_ && !fs::create_directory(path_, error) && !error)
    error = std::make_error_code(std::errc::file_exists);
  if (error)
    throw Failure(writer_.exit, fmt::format("cannot create '{}': {}. Choose another {}", path_.string(),
                                            error.message(), writer_.option));
  // Blocked before any other thread starts, so that only the watcher receives them.
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
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
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void PendingFolder::remove() {
  const std::lock_guard<std::mutex> guard(mutex_);
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void PendingFolder::watch() {
  const sigset_t set = ending_signals();
  const timespec wait{0, 50'000'000};
  while (!done_) {
    const int signal = sigtimedwait(&set, nullptr, &wait);
    if (signal < 0) continue;
    std::error_code error;
    if (kept_.empty() || !fs::exists(path_ / kept_, error)) remove();
    ::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    raise(signal);
  }
}

void PendingFolder::look_after_orphans() {
  const std::string start = target_.filename().string() + ".partial-";
  std::error_code ignored;
  for (const fs::path& entry : disk::readable_entries(target_.parent_path())) {
    const std::string name = entry.filename().string();
    if (name.compare(0, start.size(), start) != 0) continue;
    pid_t process = 0;
    const auto [end, error] = std::from_chars(name.data() + start.size(), name.data() + name.size(), process);
    const bool dead = error == std::errc() && end == name.data() + name.size() && process > 0 && has_ended(process);
    if (!dead) continue;
    const bool keep = !kept_.empty() && !taken_over_ && fs::is_directory(fs::symlink_status(entry, ignored)) &&
                      fs::is_regular_file(fs::symlink_status(entry / kept_, ignored));
    if (keep) fs::rename(entry, path_, ignored);
    taken_over_ |= keep && !ignored;
    if (!keep) fs::remove_all(entry, ignored);
  }
}

void PendingFolder::publish() {
  check_target();  // it may have changed in the meantime
  const std::lock_guard<std::mutex> guard(mutex_);
  publish_directory(path_, target_, writer_);
  path_.clear();
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
