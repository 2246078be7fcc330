// LD_PRELOAD library: makes the n-th call that changes or syncs the disk fail, write only a part, or kill the process.
//
// LLMC_FAIL_CALL=n counts from 1; LLMC_FAIL_MODE=ENOSPC|EIO|EINTR|SHORT|SYNC|KILL. EINTR counts only calls that POSIX
// lets a signal interrupt before they start (open, write, fsync), SHORT only writes, SYNC (EIO) only fsync. Removals
// count for KILL only: leftovers have a hidden name, and are removed before the next save.
// LLMC_FAIL_FREE=bytes: free bytes that statvfs reports. LLMC_FAIL_LOG=file: logs the calls in order.
// LLMC_FAIL_THREAD=n: the n-th std::thread cannot be started; libraries in C may start threads.
// LLMC_FAIL_SLOW=file: while it exists, removing a checkpoint, which begins with a rename, takes 0.5 s longer.
// LLMC_FAIL_SLOW_SAVE=end: a rename to a path that ends so takes LLMC_FAIL_SLOW_SECONDS longer.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

enum class Call { kOpen, kWrite, kSync, kRemove, kOther };

bool fired = false;

std::string_view mode() {
  const char* text = std::getenv("LLMC_FAIL_MODE");
  return text == nullptr ? "" : text;
}

/// Returns whether this call must fail; sets errno then.
bool fails(Call call) {
  static long calls = 0;
  static const char* wanted = std::getenv("LLMC_FAIL_CALL");
  const bool counted = mode() == "EINTR"   ? call != Call::kOther && call != Call::kRemove
                       : mode() == "SHORT" ? call == Call::kWrite
                       : mode() == "SYNC"  ? call == Call::kSync
                                           : call != Call::kRemove || mode() == "KILL";
  if (wanted == nullptr || !counted) return false;
  if (++calls != std::atol(wanted)) return false;
  fired = true;
  if (mode() == "KILL") ::kill(::getpid(), SIGKILL);
  errno = mode() == "ENOSPC" ? ENOSPC : mode() == "EINTR" ? EINTR : EIO;
  return true;
}

/// Closing a file that was only read cannot lose data, and its result is ignored.
bool only_read(int fd) {
  struct stat status{};
  return (::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY && ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

/// LLMC_FAIL_LOG=file: a line for each call that changes or syncs a directory.
void note(const char* call, const std::string& what) {
  const char* log = std::getenv("LLMC_FAIL_LOG");
  if (log == nullptr) return;
  std::FILE* file = std::fopen(log, "a");
  std::fprintf(file, "%s %s\n", call, what.c_str());
  std::fclose(file);
}

/// Path of an entry of an open directory.
std::string in(int directory, const char* name) {
  if (directory == AT_FDCWD || name[0] == '/') return name;
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(directory);
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
  return std::string(path, static_cast<std::size_t>(length > 0 ? length : 0)) + (name[0] ? "/" : "") + name;
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
  if (mode() == "ENOSPC" && bytes > 1) (void)!real(fd, data, bytes / 2);  // a full disk first accepts a part
  errno = mode() == "ENOSPC" ? ENOSPC : mode() == "EINTR" ? EINTR : EIO;
  return -1;
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  return fails(Call::kWrite) && mode() != "SHORT" ? -1 : real(fd, data, bytes, offset);
}

int ftruncate(int fd, off_t bytes) {
  static const auto real = next<int (*)(int, off_t)>("ftruncate");
  note("ftruncate", in(fd, ""));
  return fails(Call::kOther) ? -1 : real(fd, bytes);
}

int fsync(int fd) {
  static const auto real = next<int (*)(int)>("fsync");
  note("fsync", in(fd, ""));
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
  note("mkdir", path);
  return fails(Call::kOther) ? -1 : real(path, permissions);
}

int rename(const char* from, const char* to) {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  note("rename", std::string(from) + " " + to);
  if (const char* slow = std::getenv("LLMC_FAIL_SLOW");
      slow && std::string_view(from).find("/step-") != std::string_view::npos && ::access(slow, F_OK) == 0)
    ::usleep(500'000);
  if (const char* slow = std::getenv("LLMC_FAIL_SLOW_SAVE"); slow && std::string_view(to).ends_with(slow))
    ::sleep(static_cast<unsigned>(std::atoi(std::getenv("LLMC_FAIL_SLOW_SECONDS"))));
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

int unlink(const char* path) {
  static const auto real = next<int (*)(const char*)>("unlink");
  note("unlink", path);
  return fails(Call::kRemove) ? -1 : real(path);
}

int rmdir(const char* path) {
  static const auto real = next<int (*)(const char*)>("rmdir");
  note("rmdir", path);
  return fails(Call::kRemove) ? -1 : real(path);
}

int remove(const char* path) {
  static const auto real = next<int (*)(const char*)>("remove");
  note("remove", path);
  return fails(Call::kRemove) ? -1 : real(path);
}

/// Called by std::filesystem::remove_all for everything except the folder itself.
int unlinkat(int directory, const char* path, int flags) {
  static const auto real = next<int (*)(int, const char*, int)>("unlinkat");
  note((flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", in(directory, path));
  return fails(Call::kRemove) ? -1 : real(directory, path, flags);
}

int statvfs(const char* path, struct statvfs* out) {
  static const auto real = next<int (*)(const char*, struct statvfs*)>("statvfs");
  const int result = real(path, out);
  if (const char* free = std::getenv("LLMC_FAIL_FREE")) out->f_bavail = std::strtoul(free, nullptr, 10) / out->f_frsize;
  return result;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*), void* argument) {
  static const auto real = next<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  static std::atomic<int> started = 0;
  Dl_info caller{};
  if (const char* n = std::getenv("LLMC_FAIL_THREAD");
      n && ::dladdr(__builtin_return_address(0), &caller) != 0 &&
      std::string_view(caller.dli_fname).find("libstdc++") != std::string_view::npos && ++started == std::atoi(n))
    return EAGAIN;
  return real(thread, attributes, function, argument);
}

}  // extern "C"
