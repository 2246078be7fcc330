#include "compiler/tools/dataset/text_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "error.h"
#include "files/disk.h"

namespace llmc::data {

namespace {

constexpr std::size_t kBlock = 1 << 20;

}  // namespace

TextReader::TextReader(Source source, Compression compression, std::string name, std::size_t longest)
    : source_(std::move(source)),
      decompressor_(compression == Compression::none ? nullptr : decompressor(compression)),
      name_(std::move(name)),
      longest_(longest),
      buffer_(kBlock) {
  if (decompressor_) packed_.resize(kBlock);
}

void TextReader::fail(const std::string& what) const { throw Failure(Exit::data, fmt::format("'{}' {}", name_, what)); }

std::size_t TextReader::decompress() {
  while (true) {
    if (in_.empty() && !ended_) {
      const std::size_t bytes = source_(packed_);
      ended_ = bytes == 0;
      in_ = std::as_bytes(std::span(packed_).first(bytes));
    }
    std::size_t bytes = 0;
    try {
      bytes = decompressor_->run(in_, buffer_);
    } catch (const Failure& failure) {
      fail(fmt::format("{} (after {} bytes of text). Replace it by a whole copy, or leave it out", failure.what(),
                       read_));
    }
    if (bytes > 0 || (ended_ && in_.empty())) return bytes;
  }
}

/// Makes text_ not empty; returns false at the end.
bool TextReader::fill() {
  if (!text_.empty()) return true;
  const std::size_t bytes = decompressor_ ? decompress() : source_(buffer_);
  if (bytes == 0 && decompressor_ && !decompressor_->complete())
    fail(
        fmt::format("was cut short: its compressed data end after {} bytes of text. Replace it by a whole copy, or "
                    "leave it out",
                    read_));
  read_ += bytes;
  text_ = std::string_view(buffer_.data(), bytes);
  return bytes > 0;
}

void TextReader::append(std::string& text, std::string_view more) const {
  if (more.size() > longest_ - std::min(text.size(), longest_))
    fail(fmt::format(
        fmt::runtime(decompressor_ ? "has a document of more than {} bytes, the most of a compressed file. Decompress "
                                     "it, or leave it out"
                                   : "has a line of more than {} bytes. Split it, or leave the file out"),
        longest_));
  text += more;
}

std::string_view TextReader::peek() {
  fill();
  return text_;
}

bool TextReader::line(std::string& text) {
  text.clear();
  if (!fill()) return false;
  while (fill()) {
    const std::size_t end = text_.find('\n');
    append(text, text_.substr(0, end));
    text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
    if (end != std::string_view::npos) break;
  }
  return true;
}

std::string TextReader::rest() {
  std::string text;
  for (; fill(); text_ = {}) {
    if (decompressor_)
      append(text, text_);
    else
      text += text_;
  }
  return text;
}

TextReader open_text(const std::filesystem::path& path) {
  const auto fail = [path] {
    throw Failure(Exit::data, fmt::format("cannot read '{}': {}", path.string(), std::strerror(errno)));
  };
  auto file = std::make_shared<std::ifstream>(disk::open(path));
  if (!*file) fail();
  return TextReader(
      [file, fail](std::span<char> out) {
        file->read(out.data(), static_cast<std::streamsize>(out.size()));
        if (file->bad()) fail();
        return static_cast<std::size_t>(file->gcount());
      },
      compression_of(path), path.string());
}

}  // namespace llmc::data
