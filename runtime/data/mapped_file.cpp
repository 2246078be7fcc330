#include "data/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "error.h"
#include "files/git_lfs.h"

namespace llmc {

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  const auto fail = [&](const std::string& what) -> void {
    throw Failure(Exit::data, fmt::format("'{}': {}", path_.string(), what));
  };
  // O_NONBLOCK: opening a FIFO must not block.
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail(fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct ::stat about = {};
  if (::fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
    ::close(file);
    fail("is not a regular file");
  }
  size_ = static_cast<std::size_t>(about.st_size);
  if (size_ > 0) {
    void* mapping = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
    const int error = errno;
    ::close(file);
    if (mapping == MAP_FAILED) fail(fmt::format("cannot be mapped: {}", std::strerror(error)));
    data_ = static_cast<const std::byte*>(mapping);
  } else {
    ::close(file);
  }
  if (is_lfs_pointer({reinterpret_cast<const char*>(data_), size_})) {
    ::munmap(const_cast<std::byte*>(data_), size_);
    fail(kIsLfsPointer);
  }
  if (data_) pages_ = UnreadablePages(const_cast<std::byte*>(data_), size_);
  inode_ = {about.st_dev, about.st_ino};
  modified_ = {about.st_mtim.tv_sec, about.st_mtim.tv_nsec};
  std::error_code ignored;
  identity_ = fmt::format("{}|{}|{}.{:09}|{}|{}", std::filesystem::absolute(path_, ignored).string(), size_,
                          about.st_mtim.tv_sec, about.st_mtim.tv_nsec, about.st_dev, about.st_ino);
}

MappedFile::~MappedFile() {
  pages_ = {};
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(std::size_t first, std::size_t count) const {
  // Linux also maps cached pages around the page that is read, up to this many bytes on each side.
  constexpr std::size_t kAround = 64 << 10, kPage = 4096;
  const std::size_t begin = (first - std::min(first, kAround)) / kPage * kPage,
                    end = std::min(first + count + kAround, size_);
  if (begin < end) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

std::string MappedFile::damage() const {
  // Reading past the end within the last page gives zeros and no error, so the size is compared. A file that was cut
  // and written again has another time.
  struct ::stat now = {};
  if (data_ != nullptr && ::stat(path_.c_str(), &now) == 0) {
    if (inode_ != std::pair<std::uint64_t, std::uint64_t>(now.st_dev, now.st_ino))
      return "was replaced by another file";
    if (static_cast<std::size_t>(now.st_size) < size_)
      return fmt::format("was cut short from {} to {} bytes", size_, now.st_size);
    if (modified_ != std::pair<std::int64_t, std::int64_t>(now.st_mtim.tv_sec, now.st_mtim.tv_nsec))
      return "was written to";
  }
  return pages_.damaged() ? "was cut short, or its disk has an error" : "";
}

void MappedFile::check() const {
  if (const std::string what = damage(); !what.empty())
    throw Failure(Exit::data, fmt::format("'{}': {} while it was read. Restore it, and rerun the same command",
                                          path_.string(), what));
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      identity_(std::move(other.identity_)),
      inode_(other.inode_),
      modified_(other.modified_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      pages_(std::move(other.pages_)) {}

}  // namespace llmc
