#include "compiler/data/shard_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "error.h"

namespace llmc::data {

namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

template <typename T>
void append_as(std::string& buffer, std::span<const std::int32_t> tokens) {
  for (const std::int32_t token : tokens) {
    const auto value = static_cast<T>(token);
    buffer.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (file_ < 0) fail("create");
}

OutputFile::~OutputFile() {
  if (file_ >= 0) ::close(file_);
}

void OutputFile::fail(const char* what) const {
  throw Failure(Exit::data, fmt::format("cannot {} '{}': {}", what, path_.string(), std::strerror(errno)));
}

void OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::write_at(std::int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
}

void OutputFile::finish() {
  if (::fsync(file_) != 0) fail("sync");
  if (::close(std::exchange(file_, -1)) != 0) fail("close");
}

void sync_directory(const std::filesystem::path& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = folder >= 0 && ::fsync(folder) == 0;
  const int error = errno;
  if (folder >= 0) ::close(folder);
  if (!synced) throw Failure(Exit::data, fmt::format("cannot sync '{}': {}", path.string(), std::strerror(error)));
}

ShardWriter::ShardWriter(std::filesystem::path folder, std::string prefix, bool wide, std::int64_t shard_tokens)
    : folder_(std::move(folder)), prefix_(std::move(prefix)), wide_(wide), shard_tokens_(shard_tokens) {}

ShardWriter::~ShardWriter() = default;

void ShardWriter::append(std::span<const std::int32_t> tokens) {
  while (!tokens.empty()) {
    if (!file_) {
      shards_.push_back({fmt::format("{}-{:05}.bin", prefix_, shards_.size()), 0});
      file_ = std::make_unique<OutputFile>(folder_ / shards_.back().file);
      buffer_.assign(256 * sizeof(std::int32_t), '\0');  // the header, written when the count is known
    }
    const std::int64_t room = shard_tokens_ - shards_.back().tokens;
    const auto taken = static_cast<std::size_t>(std::min<std::int64_t>(
        {room, static_cast<std::int64_t>(tokens.size()), static_cast<std::int64_t>(kBufferBytes)}));
    if (wide_) {
      append_as<std::uint32_t>(buffer_, tokens.first(taken));
    } else {
      append_as<std::uint16_t>(buffer_, tokens.first(taken));
    }
    shards_.back().tokens += static_cast<std::int64_t>(taken);
    tokens = tokens.subspan(taken);
    if (buffer_.size() >= kBufferBytes) flush();
    if (shards_.back().tokens == shard_tokens_) close();
  }
}

void ShardWriter::flush() {
  file_->write(buffer_);
  buffer_.clear();
}

void ShardWriter::close() {
  flush();
  const std::array<std::int32_t, 3> header = {wide_ ? 20240801 : 20240520, wide_ ? 7 : 1,
                                              static_cast<std::int32_t>(shards_.back().tokens)};
  file_->write_at(0, {reinterpret_cast<const char*>(header.data()), sizeof(header)});
  file_->finish();
  file_.reset();
}

std::vector<ShardSummary> ShardWriter::finish() {
  if (file_) close();
  return std::move(shards_);
}

}  // namespace llmc::data
