#include "files/disk.h"

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <system_error>

namespace llmc::disk {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string& action, const fs::path& path, const std::error_code& error, Exit exit) {
  throw Failure(exit, "cannot " + action + " '" + path.string() + "': " + error.message());
}

fs::file_status status(const fs::path& path, Exit exit) {
  std::error_code error;
  const fs::file_status found = fs::status(path, error);
  if (found.type() == fs::file_type::none) fail("look up", path, error, exit);
  return found;
}

}  // namespace

bool exists(const fs::path& path, Exit exit) { return fs::exists(status(path, exit)); }
bool is_folder(const fs::path& path, Exit exit) { return fs::is_directory(status(path, exit)); }
bool is_file(const fs::path& path, Exit exit) { return fs::is_regular_file(status(path, exit)); }

std::ifstream open(const fs::path& path) {
  std::error_code unknown;
  const fs::file_status found = fs::status(path, unknown);
  std::ifstream file;
  if (fs::exists(found) && !fs::is_regular_file(found)) {
    file.setstate(std::ios::failbit);
    errno = fs::is_directory(found) ? EISDIR : EINVAL;
  } else {
    file.open(path, std::ios::binary);
  }
  return file;
}

std::optional<std::string> text(const fs::path& path, std::uint64_t most) {
  std::ifstream file = open(path);
  if (!file) return std::nullopt;
  std::error_code unknown;
  if (const auto bytes = fs::file_size(path, unknown); !unknown && bytes > most) {
    errno = EFBIG;
    return std::nullopt;
  }
  std::ostringstream content;
  if (file.peek() != std::ifstream::traits_type::eof()) content << file.rdbuf();
  if (file.bad() || content.fail()) return std::nullopt;
  return content.str();
}

std::string tail(const fs::path& path, std::uint64_t most, std::uint64_t begin) {
  std::ifstream file = open(path);
  file.seekg(0, std::ios::end);
  const std::streamoff end = file.tellg();
  if (end < 0) return {};
  const auto bytes = static_cast<std::uint64_t>(end);
  if (bytes > most) begin = std::max(begin, bytes - most);
  std::string text(bytes - std::min(begin, bytes), '\0');
  file.seekg(static_cast<std::streamoff>(begin));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

bool has_content(const fs::path& file) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  return !error && bytes > 0;
}

std::uint64_t size(const fs::path& path, Exit exit) {
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(path, error);
  if (error) fail("look up", path, error, exit);
  return bytes;
}

namespace {

std::vector<fs::path> list(const fs::path& folder, std::error_code& error) {
  std::vector<fs::path> found;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    found.push_back(at->path());
  std::ranges::sort(found);
  return found;
}

}  // namespace

std::vector<fs::path> entries(const fs::path& folder, Exit exit) {
  std::error_code error;
  std::vector<fs::path> found = list(folder, error);
  if (error) fail("list", folder, error, exit);
  return found;
}

std::vector<fs::path> readable_entries(const fs::path& folder) {
  std::error_code ignored;
  return list(folder, ignored);
}

std::vector<fs::path> files_below(const fs::path& folder, Exit exit) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (is_file(at->path(), exit)) found.push_back(at->path());
  if (error) fail("list", folder, error, exit);
  std::ranges::sort(found);
  return found;
}

fs::path working_folder(Exit exit) {
  std::error_code error;
  fs::path folder = fs::current_path(error);
  if (error) throw Failure(exit, "cannot find the working folder: " + error.message() + ". Change into another");
  return folder;
}

fs::path absolute(const fs::path& path, Exit exit) {
  if (path.empty()) throw Failure(exit, "the path is empty. Write a path");
  return path.is_absolute() ? path : working_folder(exit) / path;
}

fs::path canonical(const fs::path& path, Exit exit) {
  std::error_code error;
  fs::path found = fs::canonical(path, error);
  if (error) fail("look up", path, error, exit);
  return found;
}

fs::path weakly_canonical(const fs::path& path, Exit exit) {
  std::error_code error;
  // Of a relative path whose first folder does not exist, the standard's function returns a relative one.
  fs::path found = fs::weakly_canonical(absolute(path, exit), error);
  if (error) fail("look up", path, error, exit);
  return found;
}

fs::path canonical_if_known(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  if (error) return path;
  fs::path found = fs::weakly_canonical(whole, error);
  return error ? whole.lexically_normal() : found;
}

void rename(const fs::path& from, const fs::path& to, Exit exit) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail("rename '" + from.string() + "' to", to, error, exit);
}

void remove(const fs::path& path, Exit exit) {
  std::error_code error;
  fs::remove(path, error);
  if (error) fail("remove", path, error, exit);
}

void remove_tree(const fs::path& path, Exit exit) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail("remove", path, error, exit);
}

fs::path temporary_files(Exit exit) {
  std::error_code error;
  fs::path folder = fs::temp_directory_path(error);
  if (error) throw Failure(exit, "no folder for temporary files was found: " + error.message() + ". Set TMPDIR to one");
  return folder;
}

}  // namespace llmc::disk
