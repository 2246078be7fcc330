// manifest.json: the list of a checkpoint's files with sizes and checksums, by which damage is found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/durable_file.h"

namespace llmc {

/// The small JSON files of a checkpoint are refused above this size.
inline constexpr std::uint64_t kMaxSmallFileBytes = 1u << 20;

/// A whole regular file of at most `limit` bytes. Throws Failure(checkpoint).
std::string read_small_file(const std::filesystem::path& path, std::uint64_t limit = kMaxSmallFileBytes);

/// Creates and syncs DIR/NAME with `content`.
FileRecord write_small_file(const std::filesystem::path& directory, const std::string& name, std::string_view content,
                            const Writer& writer = kRunWriter);

/// Whether a directory has a manifest.json: it is a checkpoint then, whole or not.
bool has_manifest(const std::filesystem::path& directory);

/// Writes manifest.json, in canonical form: sorted, so equal files give equal bytes. Call it last.
void write_manifest(const std::filesystem::path& directory, std::span<const FileRecord> files,
                    const Writer& writer = kRunWriter);

/// The files that manifest.json lists, by name. Any byte of it that differs from the canonical form is an error, so no
/// flipped bit goes unseen. Throws Failure(checkpoint).
std::vector<FileRecord> read_manifest(const std::filesystem::path& directory);

/// Whether two directories have the same manifest, and one that can be read.
bool same_manifest(const std::filesystem::path& a, const std::filesystem::path& b);

enum class Depth { sizes, checksums };

/// The files that every checkpoint has, and that these records do not name.
std::vector<std::string> missing_records(std::span<const FileRecord> files);

/// What is wrong with one file of a checkpoint directory, as "has 3 bytes instead of 4"; empty when it is as its record
/// says. Throws Failure(checkpoint) where it cannot be read.
std::optional<std::string> find_file_damage(const std::filesystem::path& directory, const FileRecord& file,
                                            Depth depth);

/// What is wrong with a checkpoint directory, naming the file; empty when it is whole. `sizes` reads only the manifest.
std::optional<std::string> find_damage(const std::filesystem::path& directory, Depth depth);

}  // namespace llmc
