#include "data/shard_format.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

#include "error.h"
#include "text/plural.h"

namespace llmc {

static_assert(std::endian::native == std::endian::little, "every format here is little-endian");

namespace {

constexpr std::int32_t kMagicUint16 = 20240520, kVersionUint16 = 1;
constexpr std::int32_t kMagicUint32 = 20240801, kVersionUint32 = 7;
constexpr std::size_t kHeaderBytes = 256 * sizeof(std::int32_t);
constexpr std::string_view kMegatronMagic("MMIDIDX\0\0", 9);
constexpr std::size_t kMegatronHeaderBytes = 34;

/// Megatron's arrays start at byte 34, so its values are unaligned.
template <typename T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw Failure(Exit::data, fmt::format("'{}': {}", name, what));
}

TokenType megatron_type(std::uint8_t code, const std::string& name) {
  switch (code) {
    case 1: return TokenType::u8;
    case 2: return TokenType::i8;
    case 3: return TokenType::i16;
    case 4: return TokenType::i32;
    case 5: return TokenType::i64;
    case 8: return TokenType::u16;
    default: fail(name, fmt::format("its data type {} is not one of 1, 2, 3, 4, 5, 8 (integers)", code));
  }
}

}  // namespace

std::string_view name_of(ShardFormat format) {
  constexpr std::array<std::string_view, 5> names = {"llm.c uint16", "llm.c uint32", "nanogpt", "nanogpt32",
                                                     "megatron"};
  return names[static_cast<std::size_t>(format)];
}

std::string_view name_of(TokenType type) {
  constexpr std::array<std::string_view, 7> names = {"uint8", "int8", "uint16", "int16", "int32", "uint32", "int64"};
  return names[static_cast<std::size_t>(type)];
}

std::int64_t size_of(TokenType type) {
  constexpr std::array<std::int64_t, 7> sizes = {1, 1, 2, 2, 4, 4, 8};
  return sizes[static_cast<std::size_t>(type)];
}

bool has_llmc_magic(std::span<const std::byte> file) {
  if (file.size() < sizeof(std::int32_t)) return false;
  const auto magic = load<std::int32_t>(file, 0);
  return magic == kMagicUint16 || magic == kMagicUint32;
}

bool has_megatron_magic(std::span<const std::byte> file) {
  return file.size() >= kMegatronMagic.size() &&
         std::memcmp(file.data(), kMegatronMagic.data(), kMegatronMagic.size()) == 0;
}

ShardLayout llmc_layout(bool wide, std::int64_t tokens) {
  return {.format = wide ? ShardFormat::llmc_uint32 : ShardFormat::llmc_uint16,
          .type = wide ? TokenType::u32 : TokenType::u16,
          .begin = kHeaderBytes,
          .tokens = tokens,
          .documents = -1};
}

std::uint64_t llmc_shard_bytes(bool wide, std::int64_t tokens) {
  return kHeaderBytes + static_cast<std::uint64_t>(tokens) * (wide ? 4 : 2);
}

ShardLayout parse_llmc_shard(std::span<const std::byte> file, const std::string& name) {
  if (!has_llmc_magic(file))
    fail(name,
         "does not start with llm.c's magic number (20240520 or 20240801). If it is raw tokens, write 'format: "
         "nanogpt' for uint16 or 'format: nanogpt32' for uint32");
  if (file.size() < kHeaderBytes)
    fail(name, fmt::format("ends inside its header of {} bytes (it has {})", kHeaderBytes, file.size()));
  const bool wide = load<std::int32_t>(file, 0) == kMagicUint32;
  const auto version = load<std::int32_t>(file, 4);
  const auto tokens = load<std::int32_t>(file, 8);
  const std::int32_t expected = wide ? kVersionUint32 : kVersionUint16;
  if (version != expected)
    fail(name, fmt::format("has version {} of its format, but only {} is supported", version, expected));
  if (tokens < 0) fail(name, fmt::format("its header says {} tokens", tokens));
  const std::uint64_t bytes = static_cast<std::uint64_t>(tokens) * (wide ? 4 : 2);
  if (file.size() - kHeaderBytes != bytes)
    fail(
        name,
        fmt::format(
            "its header says {} token{}, so {} bytes should follow it, but {} do. The file was cut short or is damaged",
            tokens, plural(tokens), bytes, file.size() - kHeaderBytes));
  return llmc_layout(wide, tokens);
}

ShardLayout parse_raw_shard(std::span<const std::byte> file, ShardFormat format, const std::string& name) {
  // A header read as tokens would silently train on garbage, so a recognisably wrong 'format' is refused.
  if (has_llmc_magic(file)) fail(name, "starts with llm.c's header. Write 'format: llmc' or 'format: auto'");
  if (has_megatron_magic(file)) fail(name, "is a Megatron index. Write 'format: megatron' or 'format: auto'");
  const TokenType type = format == ShardFormat::nanogpt32 ? TokenType::u32 : TokenType::u16;
  const auto width = static_cast<std::size_t>(size_of(type));
  if (file.size() % width != 0)
    fail(name, fmt::format("has {} bytes, which is not a whole number of {} tokens{}", file.size(), name_of(type),
                           width == 4 && file.size() % 2 == 0 ? ". Raw uint16 is 'format: nanogpt'" : ""));
  return {.format = format,
          .type = type,
          .begin = 0,
          .tokens = static_cast<std::int64_t>(file.size() / width),
          .documents = -1};
}

ShardLayout parse_megatron_index(std::span<const std::byte> index, std::uint64_t bin_bytes, const std::string& name) {
  if (!has_megatron_magic(index)) fail(name, "does not start with Megatron's magic bytes 'MMIDIDX'");
  if (index.size() < kMegatronHeaderBytes) fail(name, "ends inside its header");
  const auto version = load<std::uint64_t>(index, 9);
  if (version != 1) fail(name, fmt::format("has version {} of Megatron's index, but only 1 is supported", version));
  const TokenType type = megatron_type(load<std::uint8_t>(index, 17), name);
  const auto sequences = load<std::uint64_t>(index, 18);
  const auto documents = load<std::uint64_t>(index, 26);

  // Counts come from an untrusted file: comparing by division cannot overflow.
  const std::uint64_t body = index.size() - kMegatronHeaderBytes;
  if (sequences > body / 12 || documents > (body - sequences * 12) / 8)
    fail(name, fmt::format("its header says {} sequences and {} documents, which do not fit in its {} bytes", sequences,
                           documents, index.size()));
  const std::uint64_t used = sequences * 12 + documents * 8;
  if (body != used && body != used + sequences)  // + one byte per sequence: the optional modes of multimodal data
    fail(name, fmt::format("has {} bytes, but its header needs {}", index.size(), kMegatronHeaderBytes + used));

  const std::size_t lengths = kMegatronHeaderBytes, offsets = lengths + sequences * 4, ends = offsets + sequences * 8;
  const auto width = static_cast<std::uint64_t>(size_of(type));
  std::uint64_t expected = 0;  // expected offset of the next sequence; bounded by bin_bytes, so it cannot overflow
  for (std::uint64_t i = 0; i < sequences; ++i) {
    const auto length = load<std::int32_t>(index, lengths + i * 4);
    const auto offset = load<std::int64_t>(index, offsets + i * 8);
    if (length < 0) fail(name, fmt::format("sequence {} has length {}", i, length));
    if (offset < 0 || static_cast<std::uint64_t>(offset) != expected)
      fail(name, fmt::format("sequence {} starts at byte {} instead of {}, but sequences must be contiguous", i, offset,
                             expected));
    expected += static_cast<std::uint64_t>(length) * width;
    if (expected > bin_bytes)
      fail(name,
           fmt::format("sequence {} ends at byte {}, past the {} bytes of the .bin file", i, expected, bin_bytes));
  }
  if (expected != bin_bytes)
    fail(name, fmt::format("its sequences end at byte {}, but the .bin file has {} bytes", expected, bin_bytes));
  std::int64_t previous = 0;
  for (std::uint64_t i = 0; i < documents; ++i) {
    const auto sequence = load<std::int64_t>(index, ends + i * 8);
    if (sequence < previous || static_cast<std::uint64_t>(sequence) > sequences)
      fail(name, fmt::format("document {} begins at sequence {}, which is out of order or out of range", i, sequence));
    previous = sequence;
  }
  return {.format = ShardFormat::megatron,
          .type = type,
          .begin = 0,
          .tokens = static_cast<std::int64_t>(bin_bytes / width),
          .documents = documents > 0 ? static_cast<std::int64_t>(documents) - 1 : 0};  // the last entry terminates the
                                                                                       // list
}

std::vector<std::int64_t> megatron_document_ends(std::span<const std::byte> index, std::size_t most) {
  const auto sequences = load<std::uint64_t>(index, 18), documents = load<std::uint64_t>(index, 26);
  const std::size_t lengths = kMegatronHeaderBytes, borders = lengths + sequences * 12;
  std::vector<std::int64_t> ends;
  std::int64_t tokens = 0, sequence = 0;
  for (std::uint64_t i = 1; i < documents && ends.size() < most; ++i) {
    const std::int64_t begin = tokens, border = load<std::int64_t>(index, borders + i * 8);
    for (; sequence < border; ++sequence)
      tokens += load<std::int32_t>(index, lengths + static_cast<std::size_t>(sequence) * 4);
    if (tokens > begin) ends.push_back(tokens - 1);
  }
  return ends;
}

}  // namespace llmc
