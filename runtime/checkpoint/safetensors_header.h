// The JSON header of a safetensors file: a strict parser for headers that strangers wrote, and the writer's layout.
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

/// Headers above this are refused before anything is read (the reference allows 100,000,000 bytes).
inline constexpr std::uint64_t kMaxHeaderBytes = 16u << 20;
inline constexpr std::size_t kMaxNameBytes = 1024;
inline constexpr std::size_t kMaxRank = 16;

/// A tensor of a file; its bytes are [begin, end) of the data that follows the header.
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

/// Parses the JSON of a header whose file holds `data_bytes` after it: entries without gaps or overlaps, each of the
/// size that its dtype and shape say. Throws std::invalid_argument with one clause that says what is wrong.
Header parse_header(std::string_view json, std::uint64_t data_bytes);

/// What a writer is asked to store; offsets are chosen by layout().
struct TensorSpec {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;
};

/// Orders tensors by alignment of their dtype, descending, then by name, and packs them from offset 0.
/// Throws std::invalid_argument on duplicate names, sizes that overflow and anything else parse_header would refuse.
std::vector<Entry> layout(std::span<const TensorSpec> tensors);

/// The length prefix and the JSON, padded with spaces so that the data begins at a multiple of 8.
std::string format_header(std::span<const Entry> entries);

}  // namespace llmc::safetensors
