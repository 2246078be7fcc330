// Where a trainer's spec is, seen from the place where the trainer lies now.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace llmc {

/// The file beside a trainer in which `llmc compile` leaves two absolute folders, a line each: the spec's, and the one
/// that it built the trainer in.
inline constexpr char kSpecDirectoryFile[] = "spec_directory";

/// The file beside a trainer in which it leaves the files that the spec was read from, the spec itself first: a line
/// "XXH3-64 PATH" each.
inline constexpr char kSpecFilesFile[] = "spec_files";

/// What the spec's relative paths and the default run folder are relative to, for a trainer in `folder`: the folder of
/// its spec; where a tree was moved or copied with the spec in it, that of the spec in the same tree; where nothing is
/// noted, as in a bundle, the current one. Throws Failure(usage) where the trainer lies elsewhere and the spec did not
/// come along: it would train into the original's run folder.
std::filesystem::path default_base(const std::filesystem::path& folder);

/// The file that the trainer in `folder` was compiled from, where it is now, also under another name in its folder;
/// empty where nothing is noted.
std::filesystem::path noted_spec(const std::filesystem::path& folder);

/// The same file, where it was then.
std::filesystem::path spec_when_compiled(const std::filesystem::path& folder);

/// Files of the spec that were edited since the trainer in `folder` was compiled. In a tree that was moved, those in
/// it.
std::vector<std::string> edited_spec_files(const std::filesystem::path& folder);

}  // namespace llmc
