#include "data/glob_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "data/glob.h"
#include "error.h"
#include "text/plural.h"

namespace llmc {
namespace fs = std::filesystem;

namespace {

std::size_t matches(const std::string& pattern) {
  try {
    return glob_files(pattern, Unmatched::none).size();
  } catch (const Failure&) {
    return 0;
  }
}

std::string files(std::size_t count) {
  return fmt::format("{} file{}", count, plural(static_cast<std::int64_t>(count)));
}

/// Pattern with * in place of [...] and {...}, which shells expand and llmc does not; empty if it has neither.
std::string without_brackets(const std::string& pattern) {
  std::string text;
  bool found = false;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const char close = pattern[at] == '[' ? ']' : pattern[at] == '{' ? '}' : '\0';
    const std::size_t end = close ? pattern.find(close, at) : std::string::npos;
    const bool one = close == ']';  // one byte
    if (end == std::string::npos) {
      text += pattern[at];
      continue;
    }
    text += one ? '?' : '*';
    at = end;
    found = true;
  }
  return found ? text : "";
}

/// Names a folder in `folder` that has token shards; empty if there is none.
std::string of_folders_inside(const fs::path& folder) {
  std::vector<fs::path> found;
  try {
    found = glob_files((folder / "*" / "*.bin").string(), Unmatched::none);
  } catch (const Failure&) {
  }
  return found.empty() ? "" : fmt::format(", but '{}' has", found.front().parent_path().string());
}

std::string of_folder(const fs::path& folder) {
  // A data set has its validation part next to the training part, and a pattern for both trains on what is held out.
  const std::string train = (folder / "train-*.bin").string(), val = (folder / "val-*.bin").string();
  const std::size_t trained = matches(train), held_out = matches(val);
  if (trained && held_out)
    return fmt::format(". '{}' is a folder: write '{}', which matches {}, or '{}', which matches {}", folder.string(),
                       train, files(trained), val, files(held_out));
  for (const char* kind : {"*.bin", "*.npy"}) {
    const std::string inside = (folder / kind).string();
    if (const std::size_t count = matches(inside))
      return fmt::format(". '{}' is a folder: write '{}', which matches {}", folder.string(), inside, files(count));
  }
  return fmt::format(". '{}' is a folder and has no .bin file in it{}", folder.string(), of_folders_inside(folder));
}

/// Suggests other files of the pattern's folder.
std::string of_neighbours(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return fmt::format(". There is no folder '{}'", folder.string());
  std::vector<std::string> names;
  for (const char* kind : {"*.bin", "*.npy"}) {
    try {
      for (const fs::path& file : glob_files((folder / kind).string(), Unmatched::none))
        names.push_back(file.filename().string());
    } catch (const Failure&) {
      return "";
    }
  }
  if (names.empty()) {
    const std::string inside = of_folders_inside(folder);
    return inside.empty() ? "" : fmt::format(". '{}' has no .bin file in it{}", folder.string(), inside);
  }
  return fmt::format(". '{}' has {}, such as '{}'", folder.string(), files(names.size()), names.front());
}

}  // namespace

std::string glob_hint(const std::string& pattern) {
  std::error_code error;
  if (fs::is_directory(pattern, error)) return of_folder(pattern);
  if (pattern.starts_with("~")) return ". ~ is not expanded to the home folder: write the whole path";
  // Megatron's tools name a pair of files by their common prefix without extension.
  for (const char* extension : {".bin", ".idx"})
    if (matches(pattern + extension)) return fmt::format(". '{0}{1}' exists: write '{0}{1}'", pattern, extension);
  if (const std::string plain = without_brackets(pattern); !plain.empty()) {
    const std::size_t count = matches(plain);
    return fmt::format(". Only * and ? are wildcards{}",
                       count ? fmt::format(": write '{}', which matches {}", plain, files(count)) : "");
  }
  const fs::path folder = fs::path(pattern).parent_path();
  if (folder.string().find_first_of("*?") != std::string::npos) return "";
  return of_neighbours(folder.empty() ? fs::path(".") : folder);
}

std::string tokenizer_hint(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return "";
  for (const char* name : {"tokenizer.model", "tokenizer.json"})
    if (fs::is_regular_file(path / name, error))
      return fmt::format(". '{}' is a folder: write '{}'", path.string(), (path / name).string());
  return fmt::format(". '{}' is a folder and has no tokenizer.model in it", path.string());
}

}  // namespace llmc
