// Locates the tokens of a shard: parses and checks the headers of common formats, as pure functions of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

enum class ShardFormat { llmc_uint16, llmc_uint32, nanogpt, nanogpt32, megatron };
enum class TokenType { u8, i8, u16, i16, i32, u32, i64 };

std::string_view name_of(ShardFormat format);
std::string_view name_of(TokenType type);
/// Bytes of one token.
std::int64_t size_of(TokenType type);

/// A shard is a flat array of tokens: token i is at byte `begin + i * size_of(type)` of the token file.
struct ShardLayout {
  ShardFormat format;
  TokenType type;
  std::uint64_t begin;  // offset of the first token in bytes
  std::int64_t tokens;
  std::int64_t documents;  // from megatron's index; -1 for other formats

  bool operator==(const ShardLayout&) const = default;
};

/// Returns whether the file starts with the magic number of llm.c (either width) or of a Megatron index.
bool has_llmc_magic(std::span<const std::byte> file);
bool has_megatron_magic(std::span<const std::byte> file);

/// Layout and size in bytes of llm.c's format with so many tokens; `wide`: uint32.
ShardLayout llmc_layout(bool wide, std::int64_t tokens);
std::uint64_t llmc_shard_bytes(bool wide, std::int64_t tokens);

/// Parse a header. `file` is the whole shard, `name` is its name in errors. All three throw Failure(data) if the header
/// is unknown or contradicts the file size.
ShardLayout parse_llmc_shard(std::span<const std::byte> file, const std::string& name);
/// Raw tokens: uint16 (nanogpt) or uint32 (nanogpt32).
ShardLayout parse_raw_shard(std::span<const std::byte> file, ShardFormat format, const std::string& name);
/// `index` is the .idx file, `bin_bytes` the size of the .bin file. Its sequences must be contiguous.
ShardLayout parse_megatron_index(std::span<const std::byte> index, std::uint64_t bin_bytes, const std::string& name);

/// Numbers of the last tokens of up to `most` documents, without empty ones, by an index that parse_megatron_index()
/// accepted.
std::vector<std::int64_t> megatron_document_ends(std::span<const std::byte> index, std::size_t most);

}  // namespace llmc
