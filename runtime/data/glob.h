// Finds files by a pattern with * and ?, without a shell.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

/// Returns whether `name` matches `pattern`: * is any run of characters, ? is one byte, every other byte matches
/// itself.
bool matches_pattern(std::string_view pattern, std::string_view name);

enum class Unmatched { refused, none };

/// Files that match `pattern`, sorted by the bytes of their paths. Wildcards may occur in any component. They never
/// match a slash, nor a leading dot unless the component starts with one. Matching directories are skipped. Throws
/// Failure(data) if a folder cannot be listed. Also if nothing matches and that is `refused`; the message then suggests
/// existing files.
std::vector<std::filesystem::path> glob_files(const std::string& pattern, Unmatched unmatched = Unmatched::refused);

}  // namespace llmc
