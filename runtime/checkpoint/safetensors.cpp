#include "checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <stdexcept>

#include "error.h"
#include "files/git_lfs.h"

namespace llmc::safetensors {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw Failure(Exit::checkpoint,
                "'" + path.string() + "' is not a valid safetensors file: " + what + ". Use another copy of it");
}

/// pread instead of mmap: a file truncated by another process gives an error, not SIGBUS.
void read_exactly(int fd, const fs::path& path, std::uint64_t position, void* out, std::size_t bytes) {
  char* next = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd, next, std::min(bytes, std::size_t{1} << 30), static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_read_errno("read", path);
    if (got == 0) refuse(path, "it ends too early");
    next += got;
    position += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

std::vector<Entry> checked_layout(const fs::path& path, std::span<const TensorSpec> tensors) try {
  return layout(tensors);
} catch (const std::invalid_argument& error) {
  throw Failure(Exit::internal, "cannot lay out '" + path.string() + "': " + error.what());
}

}  // namespace

Reader::Reader(const fs::path& path) : path_(path) {
  // O_NONBLOCK: opening a planted pipe must not block.
  do fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) throw_read_errno("open", path);
  try {
    struct stat status{};
    if (::fstat(fd_, &status) != 0) throw_read_errno("examine", path);
    if (!S_ISREG(status.st_mode)) refuse(path, "it is not a regular file");
    const std::uint64_t size = static_cast<std::uint64_t>(status.st_size);
    if (size < kMaxLfsPointerBytes) {
      std::string whole(size, '\0');
      read_exactly(fd_, path, 0, whole.data(), whole.size());
      if (is_lfs_pointer(whole)) refuse(path, std::string("it ") + kIsLfsPointer);
    }
    std::uint64_t header_bytes = 0;
    if (size < sizeof header_bytes) refuse(path, "it has fewer than 8 bytes");
    read_exactly(fd_, path, 0, &header_bytes, sizeof header_bytes);
    if (header_bytes > kMaxHeaderBytes) refuse(path, "its header is larger than 16 MiB");
    if (header_bytes > size - sizeof header_bytes) refuse(path, "its header reaches past its end");
    data_begin_ = sizeof header_bytes + header_bytes;
    std::string json(header_bytes, '\0');
    read_exactly(fd_, path, sizeof header_bytes, json.data(), json.size());
    header_ = parse_header(json, size - data_begin_);
  } catch (const std::invalid_argument& error) {
    ::close(fd_);
    refuse(path, error.what());
  } catch (...) {
    ::close(fd_);
    throw;
  }
  for (std::size_t i = 0; i < header_.entries.size(); ++i) index_[header_.entries[i].name] = i;
}

Reader::~Reader() { ::close(fd_); }

const Entry* Reader::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.entries[found->second];
}

void Reader::read(const Entry& entry, std::uint64_t offset, void* out, std::size_t bytes) const {
  if (offset > entry.bytes() || bytes > entry.bytes() - offset)
    throw Failure(Exit::internal, "read outside of tensor '" + entry.name + "'");
  read_exactly(fd_, path_, data_begin_ + entry.begin + offset, out, bytes);
}

Writer::Writer(const fs::path& path, std::span<const TensorSpec> tensors, const llmc::Writer& owner)
    : entries_(checked_layout(path, tensors)), file_(path, owner) {
  file_.write(format_header(entries_));
}

void Writer::append(const void* data, std::size_t bytes) {
  file_.write(data, bytes);
  appended_ += bytes;
}

FileRecord Writer::finish() {
  const std::uint64_t expected = entries_.empty() ? 0 : entries_.back().end;
  if (appended_ != expected)
    throw Failure(Exit::internal, "a safetensors file got " + std::to_string(appended_) + " bytes of data, not " +
                                      std::to_string(expected));
  return file_.finish();
}

}  // namespace llmc::safetensors
