// Reads the text of a file of a corpus, compressed or not.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/tools/dataset/decompress.h"

namespace llmc::data {

/// Longest document of a compressed file, which may be far larger than the file, and longest line of any file.
constexpr std::size_t kMostDecompressed = std::size_t{1} << 30;

class TextReader {
 public:
  /// Reads up to so many bytes into the buffer; returns their number, 0 at the end.
  using Source = std::function<std::size_t(std::span<char>)>;

  /// `name`: in errors. `longest`: of a line, and of a document in a compressed stream.
  TextReader(Source source, Compression compression, std::string name, std::size_t longest = kMostDecompressed);

  /// Text that comes next, of a length that the source chooses; empty at the end. Throws as line().
  std::string_view peek();

  /// Next line without its line feed; returns false at the end. Throws Failure(data) naming the file if it cannot be
  /// read, is damaged or truncated, or has a longer line than allowed.
  bool line(std::string& text);

  /// Everything that is left. Throws as line().
  std::string rest();

 private:
  bool fill();
  std::size_t decompress();
  void append(std::string& text, std::string_view more) const;
  [[noreturn]] void fail(const std::string& what) const;

  Source source_;
  std::unique_ptr<Decompressor> decompressor_;  // null: the stream is text
  std::string name_;
  std::size_t longest_, read_ = 0;  // read: bytes of text
  bool ended_ = false;
  std::vector<char> packed_, buffer_;
  std::span<const std::byte> in_;  // unread part of packed_
  std::string_view text_;          // unread part of buffer_
};

/// Opens a file; compressed files are recognised by their names. Throws Failure(data) if it cannot be opened.
TextReader open_text(const std::filesystem::path& path);

}  // namespace llmc::data
