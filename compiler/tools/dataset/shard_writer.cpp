#include "compiler/tools/dataset/shard_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace llmc::data {

namespace {

constexpr std::size_t kBufferBytes = 1 << 20, kHeaderBytes = 256 * sizeof(std::int32_t);

template <typename T>
void append_as(std::string& buffer, std::span<const std::int32_t> tokens) {
  for (const std::int32_t token : tokens) {
    const auto value = static_cast<T>(token);
    buffer.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
}

}  // namespace

ShardWriter::ShardWriter(std::filesystem::path folder, std::string prefix, bool wide, std::int64_t shard_tokens)
    : folder_(std::move(folder)), prefix_(std::move(prefix)), wide_(wide), shard_tokens_(shard_tokens) {}

ShardWriter::~ShardWriter() = default;

void ShardWriter::restore(ShardState state) {
  shards_ = std::move(state.shards);
  if (!state.open) return;
  const std::int64_t bytes = static_cast<std::int64_t>(kHeaderBytes) + shards_.back().tokens * (wide_ ? 4 : 2);
  file_ = std::make_unique<DurableFile>(folder_ / shards_.back().file, static_cast<std::uint64_t>(bytes), kDataWriter);
}

ShardState ShardWriter::save() {
  if (file_) {
    flush();
    file_->sync();
  }
  return {shards_, file_ != nullptr};
}

void ShardWriter::append(std::span<const std::int32_t> tokens) {
  while (!tokens.empty()) {
    if (!file_) {
      shards_.push_back({.file = fmt::format("{}-{:05}.bin", prefix_, shards_.size()), .xxh3 = ""});
      file_ = std::make_unique<DurableFile>(folder_ / shards_.back().file, kDataWriter);
      buffer_.assign(kHeaderBytes, '\0');  // the header, written when the count is known
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
    shards_.back().max_id = std::max(shards_.back().max_id, std::ranges::max(tokens.first(taken)));
    tokens = tokens.subspan(taken);
    shards_.back().documents += tokens.empty();
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
  file_->overwrite(0, {reinterpret_cast<const char*>(header.data()), sizeof(header)});
  file_->finish();
  file_.reset();
  // The header is written last, so the checksum needs a second pass over the file, which is still cached.
  const std::filesystem::path path = folder_ / shards_.back().file;
  shards_.back().xxh3 = file_checksum(path);
  if (shards_.back().xxh3.empty()) throw Failure(Exit::data, fmt::format("cannot read '{}'", path.string()));
}

std::vector<ShardSummary> ShardWriter::finish() {
  if (file_) close();
  return std::move(shards_);
}

}  // namespace llmc::data
