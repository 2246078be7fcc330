#include "data/glob.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "data/glob_hint.h"
#include "error.h"

namespace llmc {
namespace fs = std::filesystem;

namespace {

bool has_wildcard(std::string_view text) { return text.find_first_of("*?") != std::string_view::npos; }

/// Entries of `folder` whose names match; none if it is missing or not a directory.
std::vector<fs::path> matching_entries(const fs::path& folder, const std::string& component,
                                       const std::string& pattern) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator entries(folder.empty() ? fs::path(".") : folder, error);
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) return found;
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (name.front() == '.' && component.front() != '.') continue;
    if (matches_pattern(component, name)) found.push_back(folder / name);
  }
  if (error)
    throw Failure(Exit::data, fmt::format("cannot list '{}' for '{}': {}", folder.string(), pattern, error.message()));
  return found;
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view name) {
  // On a mismatch only the last * needs backtracking, so this is linear in practice and never exponential.
  std::size_t p = 0, n = 0, star = std::string_view::npos, star_name = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_name = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<fs::path> glob_files(const std::string& pattern, Unmatched unmatched) {
  if (pattern.empty() || pattern.find('\0') != std::string::npos)
    throw Failure(Exit::data, "the path of the data is empty or has a NUL byte. Write the path of a file or a pattern");
  std::vector<fs::path> paths = {fs::path()};
  for (const fs::path& part : fs::path(pattern)) {
    const std::string component = part.string();
    std::vector<fs::path> longer;
    for (const fs::path& path : paths) {
      if (has_wildcard(component)) {
        std::ranges::move(matching_entries(path, component, pattern), std::back_inserter(longer));
      } else {
        longer.push_back(path / part);
      }
    }
    paths = std::move(longer);
  }
  std::erase_if(paths, [](const fs::path& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (error == std::errc::permission_denied)
      throw Failure(Exit::data, fmt::format("cannot look up '{}': {}", path.string(), error.message()));
    return !fs::exists(status) || fs::is_directory(status);
  });
  if (paths.empty() && unmatched == Unmatched::refused) {
    const std::string hint = glob_hint(pattern);
    throw Failure(Exit::data,
                  fmt::format("no file matches '{}'{}", pattern,
                              hint.empty() ? ". Check the path, or make shards with 'llmc data build'" : hint));
  }
  std::ranges::sort(paths, {}, [](const fs::path& path) -> const std::string& { return path.native(); });
  return paths;
}

}  // namespace llmc
