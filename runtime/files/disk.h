// File system calls whose failures name the path and the system's reason. std::filesystem's own exceptions tell a user
// too little: elsewhere its calls always take an error_code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "error.h"

namespace llmc::disk {

/// Return whether the path exists, is a directory, or is a regular file; links are followed. Throw Failure(exit) if
/// that cannot be determined: a parent that may not be searched, a cycle of links, a name that is too long.
bool exists(const std::filesystem::path& path, Exit exit);
bool is_folder(const std::filesystem::path& path, Exit exit);
bool is_file(const std::filesystem::path& path, Exit exit);

/// Opens a regular file for reading. For anything else returns a failed stream and sets errno: opening a pipe would
/// block, and /dev/zero has no end.
std::ifstream open(const std::filesystem::path& path);

inline constexpr std::uint64_t kMostText = 256u << 20;  // no file that is parsed as a whole is larger

/// Returns the content of a regular file, or nothing and errno if it cannot be read or has more than `most` bytes.
/// Parsing straight from a stream would throw on a disk error.
std::optional<std::string> text(const std::filesystem::path& path, std::uint64_t most = kMostText);

/// Returns the last `most` bytes of a regular file, or what it has from byte `begin` on if that is less. Empty if it
/// cannot be read.
std::string tail(const std::filesystem::path& path, std::uint64_t most, std::uint64_t begin = 0);

/// Returns whether the file can be seen to exist and to hold at least one byte.
bool has_content(const std::filesystem::path& file);

/// Size of a regular file in bytes.
std::uint64_t size(const std::filesystem::path& path, Exit exit);

/// Paths of a directory's entries, sorted by name.
std::vector<std::filesystem::path> entries(const std::filesystem::path& folder, Exit exit);

/// Same as entries(), for as much of the directory as can be read; none if it cannot be read.
std::vector<std::filesystem::path> readable_entries(const std::filesystem::path& folder);

/// Regular files in a directory and in all directories below it, sorted.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder, Exit exit);

std::filesystem::path working_folder(Exit exit);
std::filesystem::path absolute(const std::filesystem::path& path, Exit exit);

/// Absolute path without links. weakly_canonical(): the end of the path need not exist.
std::filesystem::path canonical(const std::filesystem::path& path, Exit exit);
std::filesystem::path weakly_canonical(const std::filesystem::path& path, Exit exit);

/// Same as weakly_canonical(), or the path as written if that fails. For comparing and printing only.
std::filesystem::path canonical_if_known(const std::filesystem::path& path);

void rename(const std::filesystem::path& from, const std::filesystem::path& to, Exit exit);

/// Removes a file or an empty directory. A missing path is not an error.
void remove(const std::filesystem::path& path, Exit exit);
/// Removes a path with all its content.
void remove_tree(const std::filesystem::path& path, Exit exit);

/// The system's directory for temporary files.
std::filesystem::path temporary_files(Exit exit);

}  // namespace llmc::disk
