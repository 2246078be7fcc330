// Finds files by a pattern with * and ?, without a shell.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

/// True when `name` matches `pattern`: * is any run of characters, ? is one byte, everything else is itself.
bool matches_pattern(std::string_view pattern, std::string_view name);

enum class Unmatched { refused, none };

/// The files that `pattern` names, sorted by the bytes of their paths. Wildcards may stand in any component and never
/// match a slash, nor a leading dot unless the component itself starts with one. Directories that match are passed
/// over. Throws Failure(Exit::data) when a folder cannot be listed, or, where that is `refused`, when nothing matches;
/// then it says what is there instead.
std::vector<std::filesystem::path> glob_files(const std::string& pattern, Unmatched unmatched = Unmatched::refused);

}  // namespace llmc
