// The calls of the file system that can fail: each failure names the path and the system's reason. std::filesystem's
// own throw what no user can act on, so that none of them is called elsewhere without an error_code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "error.h"

namespace llmc::disk {

/// Whether there is something, a folder, a regular file (through links). Throws Failure(exit) where that cannot be
/// told: a folder above may not be searched, links in a circle, a name that is too long.
bool exists(const std::filesystem::path& path, Exit exit);
bool is_folder(const std::filesystem::path& path, Exit exit);
bool is_file(const std::filesystem::path& path, Exit exit);

/// A regular file, open to be read. A stream that has failed, and errno says why, for anything else: opening a pipe
/// would wait for its writer, and /dev/zero has no end.
std::ifstream open(const std::filesystem::path& path);

/// All of a regular file; nothing where it cannot be read. A stream that is parsed throws where the disk fails.
std::optional<std::string> text(const std::filesystem::path& path);

/// Whether there is a file with bytes in it, as far as that can be told.
bool has_content(const std::filesystem::path& file);

/// Bytes of a regular file.
std::uint64_t size(const std::filesystem::path& path, Exit exit);

/// Paths of what lies in a folder, sorted by name.
std::vector<std::filesystem::path> entries(const std::filesystem::path& folder, Exit exit);

/// The same, as far as the folder can be read; a folder that cannot be read has none.
std::vector<std::filesystem::path> readable_entries(const std::filesystem::path& folder);

/// Regular files in a folder and in those below it, sorted.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder, Exit exit);

std::filesystem::path working_folder(Exit exit);
std::filesystem::path absolute(const std::filesystem::path& path, Exit exit);

/// Absolute, without links; weakly: the end of the path need not be there.
std::filesystem::path canonical(const std::filesystem::path& path, Exit exit);
std::filesystem::path weakly_canonical(const std::filesystem::path& path, Exit exit);

/// The same, or where it cannot be told the path as it is written: to compare and to show.
std::filesystem::path canonical_if_known(const std::filesystem::path& path);

void rename(const std::filesystem::path& from, const std::filesystem::path& to, Exit exit);

/// A file or an empty folder; nothing is wrong where it is not there.
void remove(const std::filesystem::path& path, Exit exit);
/// With all that is in it.
void remove_tree(const std::filesystem::path& path, Exit exit);

/// Where the system has its temporary files.
std::filesystem::path temporary_files(Exit exit);

}  // namespace llmc::disk
