#include "compiler/tools/runs/reverse_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "error.h"
#include "files/disk.h"
#include "run/json_lines.h"

namespace llmc::runs {

ReverseLines::ReverseLines(const std::filesystem::path& path) : path_(path) {
  if (!disk::exists(path, Exit::checkpoint)) return;
  if (!disk::is_file(path, Exit::checkpoint))  // opening a pipe would wait for its writer
    throw Failure(Exit::checkpoint, fmt::format("cannot read '{}': it is not a file", path.string()));
  in_.open(path, std::ios::binary | std::ios::ate);
  const auto size = in_.tellg();
  if (!in_ || size < 0)
    throw Failure(Exit::checkpoint, fmt::format("cannot read '{}': {}", path.string(), std::strerror(errno)));
  left_ = static_cast<std::uint64_t>(size);
  std::size_t end = std::string::npos;
  while (end == std::string::npos && read_more()) end = text_.rfind('\n');
  text_.resize(end == std::string::npos ? 0 : end + 1);
}

bool ReverseLines::read_more() {
  constexpr std::uint64_t kBlock = 1u << 16;
  if (left_ == 0) return false;
  if (text_.size() > kMostLineBytes)
    throw Failure(Exit::checkpoint,
                  fmt::format("'{}' has a line of more than {} MiB", path_.filename().string(), kMostLineBytes >> 20));
  std::string block(std::min(left_, kBlock), '\0');
  left_ -= block.size();
  in_.seekg(static_cast<std::streamoff>(left_));
  in_.read(block.data(), static_cast<std::streamsize>(block.size()));
  if (!in_) throw Failure(Exit::checkpoint, fmt::format("cannot read '{}'", path_.string()));
  text_ = block + text_;
  return true;
}

std::optional<std::string> ReverseLines::next() {
  if (text_.empty() && !read_more()) return std::nullopt;
  std::size_t begin = std::string::npos;
  // The last character is this line's break; the one before it ends the line above.
  while ((begin = text_.size() < 2 ? std::string::npos : text_.rfind('\n', text_.size() - 2)) == std::string::npos)
    if (!read_more()) break;
  begin = begin == std::string::npos ? 0 : begin + 1;
  std::string line = text_.substr(begin, text_.size() - begin - 1);
  text_.resize(begin);
  return line;
}

}  // namespace llmc::runs
