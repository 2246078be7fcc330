// Recognises data files in formats other than a shard's by their first bytes, so that errors can name the format.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace llmc {

/// Formats that begin with a magic number.
enum class Foreign { none, parquet, arrow, hdf5, zip, gzip, zstd, xz };

/// Format of a file by its first bytes.
Foreign foreign_kind(std::span<const std::byte> file);

/// Returns "is a NumPy .npy file (<u2); ..." with advice; empty for an unknown format. The .npy files of OLMo and dolma
/// are raw tokens without such a header.
std::string foreign_format(std::span<const std::byte> file);

}  // namespace llmc
