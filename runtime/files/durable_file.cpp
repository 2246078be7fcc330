#include "files/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "error.h"
#include "files/disk.h"
#include "text/shell.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

int open_retrying(const fs::path& path, int flags) {
  int fd;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  return fd;
}

/// A failed fsync must not be retried, because the kernel has dropped the dirty pages. Only EINTR means "not done yet".
bool sync_retrying(int fd) {
  int result;
  do result = ::fsync(fd);
  while (result < 0 && errno == EINTR);
  return result == 0;
}

/// Linux has released the descriptor even if close returns EINTR, and the data was synced before.
bool close_checked(int fd) { return ::close(fd) == 0 || errno == EINTR; }

}  // namespace

void throw_errno(const char* action, const fs::path& path, const Writer& writer) {
  const int code = errno;
  std::string hint;
  if (code == ENOSPC || code == EDQUOT) hint = std::string(". Free some space or choose another ") + writer.option;
  if (code == EACCES || code == EROFS || code == EPERM)
    hint = std::string(". Make it writable or choose another ") + writer.option;
  throw Failure(writer.exit,
                std::string("cannot ") + action + " '" + path.string() + "': " + std::strerror(code) + hint);
}

void throw_read_errno(const char* action, const fs::path& path) {
  const int code = errno;
  const char* hint = code == EACCES || code == EPERM ? ". Make it readable" : code == EIO ? ". Check the disk" : "";
  throw Failure(Exit::checkpoint,
                std::string("cannot ") + action + " '" + path.string() + "': " + std::strerror(code) + hint);
}

struct Checksum::State {
  XXH3_state_t* xxh3 = XXH3_createState();
  ~State() { XXH3_freeState(xxh3); }
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(state_->xxh3); }
Checksum::~Checksum() = default;
void Checksum::update(const void* data, std::size_t bytes) { XXH3_64bits_update(state_->xxh3, data, bytes); }
std::string Checksum::hex() const {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(XXH3_64bits_digest(state_->xxh3)));
  return text;
}

DurableFile::DurableFile(const fs::path& path, const Writer& writer)
    : path_(path), writer_(writer), fd_(open_retrying(path, O_CREAT | O_EXCL | O_WRONLY)) {
  if (fd_ < 0) throw_errno("create", path_, writer_);
}

DurableFile::DurableFile(const fs::path& path, std::uint64_t bytes, const Writer& writer)
    : path_(path), writer_(writer), fd_(open_retrying(path, O_WRONLY | O_NOFOLLOW)), bytes_(bytes), overwritten_(true) {
  struct stat status = {};
  if (fd_ < 0 || ::fstat(fd_, &status) != 0) throw_errno("open", path_, writer_);
  if (static_cast<std::uint64_t>(status.st_size) < bytes)
    throw Failure(writer_.exit, "'" + path_.string() + "' is shorter than it was");
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0 || ::lseek(fd_, 0, SEEK_END) < 0)
    throw_errno("write", path_, writer_);
}

void DurableFile::sync() {
  if (!sync_retrying(fd_)) throw_errno("sync", path_, writer_);
}

DurableFile::~DurableFile() {
  if (fd_ >= 0) ::close(fd_);
}

template <typename Call>
void DurableFile::write_all(const void* data, std::size_t bytes, const Call& call) {
  for (std::size_t done = 0; done < bytes;) {
    // Linux writes at most 2 GiB at once; 1 GiB keeps every count in range.
    const ssize_t written =
        call(static_cast<const char*>(data) + done, std::min(bytes - done, std::size_t{1} << 30), done);
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) throw_errno("write", path_, writer_);
    done += static_cast<std::size_t>(written);
  }
}

void DurableFile::write(const void* data, std::size_t bytes) {
  write_all(data, bytes, [&](const char* next, std::size_t size, std::size_t) { return ::write(fd_, next, size); });
  checksum_.update(data, bytes);
  bytes_ += bytes;
}

void DurableFile::overwrite(std::uint64_t offset, std::string_view bytes) {
  overwritten_ = true;
  write_all(bytes.data(), bytes.size(), [&](const char* next, std::size_t size, std::size_t done) {
    return ::pwrite(fd_, next, size, static_cast<off_t>(offset + done));
  });
}

FileRecord DurableFile::finish() {
  if (!sync_retrying(fd_)) throw_errno("sync", path_, writer_);
  const int fd = fd_;
  fd_ = -1;
  if (!close_checked(fd)) throw_errno("close", path_, writer_);
  return {path_.filename().string(), bytes_, overwritten_ ? "" : checksum_.hex()};
}

void sync_directory(const fs::path& directory, const Writer& writer) {
  const fs::path path = directory.empty() ? fs::path(".") : directory;
  const int fd = open_retrying(path, O_RDONLY | O_DIRECTORY);
  if (fd < 0) throw_errno("open", path, writer);
  // Some file systems cannot sync a directory and return EINVAL. Nothing better can be done there.
  if (!sync_retrying(fd) && errno != EINVAL) {
    const int code = errno;
    ::close(fd);
    errno = code;
    throw_errno("sync", path, writer);
  }
  if (!close_checked(fd)) throw_errno("close", path, writer);
}

void forget_cached(const fs::path& path) {
  const int fd = open_retrying(path, O_RDONLY);
  if (fd < 0) return;
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

int open_own_file(const fs::path& path, int flags, const Writer& writer) {
  // O_NONBLOCK: a pipe without a reader must not stop this process. It means nothing for a regular file.
  const int fd = open_retrying(path, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && errno == ELOOP) refuse_link(path, writer);
  if (fd < 0 && errno != ENXIO) throw_errno("open", path, writer);
  struct stat status{};
  if (fd >= 0 && ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) return fd;
  if (fd >= 0) ::close(fd);
  throw Failure(writer.exit,
                "'" + path.string() + "' is not a regular file. Remove it, or choose another " + writer.option);
}

void refuse_link(const fs::path& path, const Writer& writer) {
  std::error_code missing;
  if (!fs::is_symlink(fs::symlink_status(path, missing))) return;
  throw Failure(writer.exit, "'" + path.string() +
                                 "' is a link, and links are not followed in a folder that llmc writes to. Replace it "
                                 "with its target, or choose another " +
                                 writer.option + " (which may be a link itself)");
}

namespace {

void make_directories_above(const fs::path& directory, const Writer& writer) {
  std::error_code ignored;  // mkdir reports the error instead
  if (directory.empty() || fs::is_directory(directory, ignored)) return;
  make_directories_above(directory.parent_path(), writer);
  if (::mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) throw_errno("create", directory, writer);
  if (!fs::is_directory(directory, ignored)) {
    errno = ENOTDIR;
    throw_errno("create", directory, writer);
  }
  sync_directory(directory.parent_path(), writer);
}

}  // namespace

void make_directories(const fs::path& directory, const Writer& writer) {
  if (!writer.follows_links) refuse_link(directory, writer);
  make_directories_above(directory, writer);
}

namespace {

constexpr int kMostLinks = 40;  // Linux's own limit

/// Target of an atomic write, and the temporary file that is renamed to it.
struct Replaced {
  fs::path path, temporary;

  /// Resolves a link to its target if links are followed. Refuses existing pipes and devices such as /dev/null, because
  /// a rename would replace them, and a missing folder of a file that the user named.
  Replaced(const fs::path& named, const Writer& writer) : path(named) {
    std::error_code error;
    for (int links = 0; writer.follows_links && fs::is_symlink(path, error) && links < kMostLinks; ++links)
      path = path.parent_path() / fs::read_symlink(path, error);
    if (!writer.follows_links) refuse_link(path, writer);
    const fs::file_status status = fs::status(path, error);
    if (fs::exists(status) && !fs::is_regular_file(status))
      throw Failure(writer.exit, std::string(writer.option) + " '" + named.string() + "' is " +
                                     (fs::is_directory(status) ? "a folder. Name a file in it"
                                                               : "not a regular file. Name another"));
    const fs::path folder = path.parent_path();
    if (writer.follows_links && !folder.empty() && fs::status(folder, error).type() == fs::file_type::not_found)
      throw Failure(writer.exit, "cannot write '" + named.string() + "': folder '" + folder.string() +
                                     "' does not exist. Create it with `mkdir -p " + shell_word(folder.string()) + "`");
    temporary = folder / (".tmp-" + path.filename().string());
    // Removes the leftover of a killed process. If that fails, creating the file reports why.
    ::unlink(temporary.c_str());
  }
};

}  // namespace

void replace_where_different(const fs::path& path, std::string_view content, const Writer& writer) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored) && fs::file_size(path, ignored) == content.size()) {
    std::ifstream file(path, std::ios::binary);
    if (std::string(std::istreambuf_iterator<char>(file), {}) == content) return;
  }
  write_file_atomically(path, content, writer);
}

void check_can_write(const fs::path& path, const Writer& writer) {
  const Replaced file(path, writer);
  DurableFile(file.temporary, writer).finish();
  ::unlink(file.temporary.c_str());
}

void write_file_atomically(const fs::path& named, std::string_view content, const Writer& writer) {
  const auto [path, temporary] = Replaced(named, writer);
  try {
    DurableFile file(temporary, writer);
    file.write(content);
    file.finish();
    if (::rename(temporary.c_str(), path.c_str()) != 0) throw_errno("rename", temporary, writer);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(path.parent_path(), writer);
}

std::string file_checksum(const fs::path& path) {
  std::ifstream file = disk::open(path);
  if (path.empty() || !file) return {};
  Checksum checksum;
  char block[1 << 16];
  while (file.read(block, sizeof block) || file.gcount() > 0)
    checksum.update(block, static_cast<std::size_t>(file.gcount()));
  return checksum.hex();
}

}  // namespace llmc
