// Decompresses gzip and Zstandard streams piece by piece.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace llmc::data {

enum class Compression { none, gzip, zstd };

/// Compression by a file's name: .gz or .zst, in any case.
Compression compression_of(const std::filesystem::path& name);

/// Decompresses one stream of any number of gzip members or Zstandard frames. Memory is bounded: 128 MiB of a frame's
/// window at most.
class Decompressor {
 public:
  virtual ~Decompressor() = default;

  /// Consumes a part of `in` and fills a part of `out`, which is not empty; returns the bytes written. Nothing is
  /// consumed and written only if `in` is empty. Throws Failure(data) with what is wrong, as in "is damaged: ...".
  virtual std::size_t run(std::span<const std::byte>& in, std::span<char> out) = 0;

  /// Whether the stream may end here: after a whole member or frame.
  virtual bool complete() const = 0;
};

/// Throws Failure(internal) for Compression::none.
std::unique_ptr<Decompressor> decompressor(Compression compression);

}  // namespace llmc::data
