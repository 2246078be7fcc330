// manifest.json: lists a checkpoint's files with sizes and checksums, so that damage is detected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/durable_file.h"

namespace llmc {

/// Small JSON files of a checkpoint are refused above this size.
inline constexpr std::uint64_t kMaxSmallFileBytes = 1u << 20;

/// Reads a regular file of at most `limit` bytes. Throws Failure(checkpoint).
std::string read_small_file(const std::filesystem::path& path, std::uint64_t limit = kMaxSmallFileBytes);

/// Creates and syncs DIR/NAME with `content`.
FileRecord write_small_file(const std::filesystem::path& directory, const std::string& name, std::string_view content,
                            const Writer& writer = kRunWriter);

/// Returns whether a directory has a manifest.json, so that it is a checkpoint, complete or not.
bool has_manifest(const std::filesystem::path& directory);

/// Writes manifest.json in canonical form: sorted, so that equal files give equal bytes. Call it last.
void write_manifest(const std::filesystem::path& directory, std::span<const FileRecord> files,
                    const Writer& writer = kRunWriter);

/// Files listed in manifest.json, by name. Any byte that differs from the canonical form is an error, so that every
/// flipped bit is detected. Throws Failure(checkpoint).
std::vector<FileRecord> read_manifest(const std::filesystem::path& directory);

/// Returns whether two directories have equal, readable manifests.
bool same_manifest(const std::filesystem::path& a, const std::filesystem::path& b);

enum class Depth { sizes, checksums };

/// Files required in every checkpoint that these records lack.
std::vector<std::string> missing_records(std::span<const FileRecord> files);

/// Describes the damage of one file of a checkpoint directory, such as "has 3 bytes instead of 4"; empty if it matches
/// its record. Throws Failure(checkpoint) if it cannot be read.
std::optional<std::string> find_file_damage(const std::filesystem::path& directory, const FileRecord& file,
                                            Depth depth);

/// Describes the damage of a checkpoint directory, naming the file; empty if it is complete. `sizes` reads only the
/// manifest.
std::optional<std::string> find_damage(const std::filesystem::path& directory, Depth depth);

}  // namespace llmc
