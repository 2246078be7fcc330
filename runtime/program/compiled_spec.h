// Finds the spec a trainer was compiled from, also after the tree was moved.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace llmc {

/// File next to a trainer in which `llmc compile` records two absolute folders, one per line: the spec's folder, and
/// the folder the trainer was built in.
inline constexpr char kSpecDirectoryFile[] = "spec_directory";

/// File next to a trainer that lists the files the spec was read from, the spec itself first. One line "XXH3-64 PATH"
/// each.
inline constexpr char kSpecFilesFile[] = "spec_files";

/// Base folder for the spec's relative paths and the default run folder, for a trainer in `folder`. It is the folder of
/// the spec; in a tree moved or copied with its spec, the spec's folder in the same tree; the current folder if nothing
/// is recorded, as in a bundle. Throws Failure(usage) if the trainer was moved without its spec, because it would train
/// into the original's run folder.
std::filesystem::path default_base(const std::filesystem::path& folder);

/// Current path of the file that the trainer in `folder` was compiled from, also if renamed within its folder. Empty if
/// nothing is recorded.
std::filesystem::path noted_spec(const std::filesystem::path& folder);

/// Path of the same file at compile time.
std::filesystem::path spec_when_compiled(const std::filesystem::path& folder);

/// Spec files edited since the trainer in `folder` was compiled. In a moved tree, the files of that tree.
std::vector<std::string> edited_spec_files(const std::filesystem::path& folder);

}  // namespace llmc
