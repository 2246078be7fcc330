// The JSON header of a safetensors file: a strict parser for untrusted headers, and the layout of written ones.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::safetensors {

enum class Dtype { kBool, kU8, kI8, kF8E4M3, kF8E5M2, kU16, kI16, kF16, kBF16, kU32, kI32, kF32, kU64, kI64, kF64 };

std::int64_t dtype_bytes(Dtype dtype);
std::string_view dtype_name(Dtype dtype);  // as in a file: "F32"

/// Larger headers are refused before reading (the reference allows 100,000,000 bytes).
inline constexpr std::uint64_t kMaxHeaderBytes = 16u << 20;
inline constexpr std::size_t kMaxNameBytes = 1024;
inline constexpr std::size_t kMaxRank = 16;

/// A tensor in a file; its bytes are [begin, end) of the data that follows the header.
struct Entry {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;  // empty: one element
  std::uint64_t begin = 0, end = 0;

  std::uint64_t bytes() const { return end - begin; }
};

struct Header {
  std::vector<Entry> entries;  // by offset: contiguous from 0 to the end of the data
  std::map<std::string, std::string> metadata;
};

/// Parses a header whose file has `data_bytes` after it. Entries must have no gaps or overlaps, and the size implied by
/// dtype and shape. Throws std::invalid_argument with one clause that describes the error.
Header parse_header(std::string_view json, std::uint64_t data_bytes);

/// A tensor to be written; layout() chooses its offset.
struct TensorSpec {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;
};

/// Orders tensors by descending alignment of their dtype, then by name, and packs them from offset 0. Throws
/// std::invalid_argument on duplicate names, overflowing sizes and anything else that parse_header would refuse.
std::vector<Entry> layout(std::span<const TensorSpec> tensors);

/// Length prefix and JSON, padded with spaces so that the data begins at a multiple of 8.
std::string format_header(std::span<const Entry> entries);

}  // namespace llmc::safetensors
