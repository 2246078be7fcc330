// LD_PRELOAD library: the n-th call that changes or syncs the disk fails, is cut short, or kills the process.
//
// LLMC_FAIL_CALL=n counts from 1; LLMC_FAIL_MODE=ENOSPC|EIO|EINTR|SHORT|SYNC|KILL. EINTR counts only calls that POSIX
// lets a signal interrupt before they began (open, write, fsync), SHORT only writes, SYNC (EIO) only fsync.
// LLMC_FAIL_FREE=bytes: what statvfs reports.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string_view>

namespace {

enum class Call { kOpen, kWrite, kSync, kOther };

bool fired = false;

std::string_view mode() {
  const char* text = std::getenv("LLMC_FAIL_MODE");
  return text == nullptr ? "" : text;
}

/// True when this call is the one to fail; errno is then set.
bool fails(Call call) {
  static long calls = 0;
  static const char* wanted = std::getenv("LLMC_FAIL_CALL");
  const bool counted = mode() == "EINTR"   ? call != Call::kOther
                       : mode() == "SHORT" ? call == Call::kWrite
                       : mode() == "SYNC"  ? call == Call::kSync
                                           : true;
  if (wanted == nullptr || !counted) return false;
  if (++calls != std::atol(wanted)) return false;
  fired = true;
  if (mode() == "KILL") ::kill(::getpid(), SIGKILL);
  errno = mode() == "ENOSPC" ? ENOSPC : mode() == "EINTR" ? EINTR : EIO;
  return true;
}

/// Closing a file that was only read loses nothing, and nobody looks at its result.
bool only_read(int fd) {
  struct stat status {};
  return (::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY && ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int fail_shim_fired() { return fired; }

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t permissions = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  static const auto real = next<int (*)(const char*, int, ...)>("open");
  const bool counted = (flags & (O_CREAT | O_DIRECTORY)) != 0;
  return counted && fails(Call::kOpen) ? -1 : real(path, flags, permissions);
}

ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  if (fd <= 2 || !fails(Call::kWrite)) return real(fd, data, bytes);
  if (mode() == "SHORT") return real(fd, data, (bytes + 1) / 2);
  if (mode() == "ENOSPC" && bytes > 1) (void)!real(fd, data, bytes / 2);  // a full disk takes a part first
  errno = mode() == "ENOSPC" ? ENOSPC : mode() == "EINTR" ? EINTR : EIO;
  return -1;
}

int fsync(int fd) {
  static const auto real = next<int (*)(int)>("fsync");
  return fails(Call::kSync) ? -1 : real(fd);
}

int close(int fd) {
  static const auto real = next<int (*)(int)>("close");
  const bool failed = fd > 2 && !only_read(fd) && fails(Call::kOther);
  const int code = errno;
  const int result = real(fd);
  if (!failed) return result;
  errno = code;
  return -1;
}

int mkdir(const char* path, mode_t permissions) {
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  return fails(Call::kOther) ? -1 : real(path, permissions);
}

int rename(const char* from, const char* to) {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return fails(Call::kOther) ? -1 : real(from, to);
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) {
  static const auto real = next<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  if (std::getenv("LLMC_FAIL_EXCHANGE") != nullptr) {
    errno = EINVAL;
    return -1;
  }
  return fails(Call::kOther) ? -1 : real(from_directory, from, to_directory, to, flags);
}

int statvfs(const char* path, struct statvfs* out) {
  static const auto real = next<int (*)(const char*, struct statvfs*)>("statvfs");
  const int result = real(path, out);
  if (const char* free = std::getenv("LLMC_FAIL_FREE")) out->f_bavail = std::strtoul(free, nullptr, 10) / out->f_frsize;
  return result;
}

}  // extern "C"
