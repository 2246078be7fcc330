#include "data/shard_format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "files.h"

namespace llmc {
namespace {

using test::llmc_shard;
using test::megatron_index;

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

template <typename T>
std::string with(std::string text, std::size_t offset, T value) {
  std::memcpy(text.data() + offset, &value, sizeof(value));
  return text;
}

TEST(LlmcShard, BothWidths) {
  EXPECT_EQ(parse_llmc_shard(as_bytes(llmc_shard<std::uint16_t>({1, 2, 3})), "x"),
            (ShardLayout{ShardFormat::llmc_uint16, TokenType::u16, 1024, 3, -1}));
  EXPECT_EQ(parse_llmc_shard(as_bytes(llmc_shard<std::uint32_t>({1, 70000})), "x"),
            (ShardLayout{ShardFormat::llmc_uint32, TokenType::u32, 1024, 2, -1}));
  EXPECT_EQ(parse_llmc_shard(as_bytes(llmc_shard<std::uint16_t>({})), "x").tokens, 0);
}

TEST(LlmcShard, EveryTruncationIsRefused) {
  const std::string shard = llmc_shard<std::uint16_t>({1, 2, 3, 4});
  for (std::size_t size = 0; size < shard.size(); ++size)
    EXPECT_NE(test::failure_of([&] { parse_llmc_shard(as_bytes(shard.substr(0, size)), "cut.bin"); }).find("'cut.bin'"),
              std::string::npos);
  EXPECT_FAILS_WITH(parse_llmc_shard(as_bytes(shard + "x"), "x"), "8 bytes", "9");
}

TEST(LlmcShard, HostileHeaders) {
  const std::string shard = llmc_shard<std::uint16_t>({1, 2, 3, 4});
  EXPECT_FAILS_WITH(parse_llmc_shard(as_bytes(with(shard, 0, 20240521)), "x"), "magic number");
  EXPECT_FAILS_WITH(parse_llmc_shard(as_bytes(with(shard, 4, 7)), "x"), "version 7");
  EXPECT_FAILS_WITH(parse_llmc_shard(as_bytes(with(shard, 8, -1)), "x"), "says -1 tokens");
  EXPECT_FAILS_WITH(parse_llmc_shard(as_bytes(with(shard, 8, 0x7fffffff)), "x"), "4294967294 bytes should follow");
  // 4 * 2^30 would wrap to 0 in 32 bits, and the file would seem to fit.
  EXPECT_FAILS_WITH(parse_llmc_shard(as_bytes(with(llmc_shard<std::uint32_t>({}), 8, 1 << 30)), "x"),
                    "4294967296 bytes");
}

TEST(RawShard, AnyWholeNumberOfTokensWithoutAnothersHeader) {
  const std::string bytes("ab\0\1", 4);
  EXPECT_EQ(parse_raw_shard(as_bytes(bytes), ShardFormat::nanogpt, "x"),
            (ShardLayout{ShardFormat::nanogpt, TokenType::u16, 0, 2, -1}));
  EXPECT_EQ(parse_raw_shard(as_bytes(bytes), ShardFormat::nanogpt32, "x"),
            (ShardLayout{ShardFormat::nanogpt32, TokenType::u32, 0, 1, -1}));
  EXPECT_FAILS_WITH(parse_raw_shard(as_bytes("abc"), ShardFormat::nanogpt, "x"), "3 bytes", "uint16 tokens");
  EXPECT_FAILS_WITH(parse_raw_shard(as_bytes("abcdef"), ShardFormat::nanogpt32, "x"), "6 bytes", "uint32 tokens",
                    "uint16", "'format: nanogpt'");
  for (const ShardFormat format : {ShardFormat::nanogpt, ShardFormat::nanogpt32}) {
    EXPECT_FAILS_WITH(parse_raw_shard(as_bytes(llmc_shard<std::uint16_t>({1})), format, "x"), "llm.c's header");
    EXPECT_FAILS_WITH(parse_raw_shard(as_bytes(megatron_index(8, 2, {1})), format, "x"), "Megatron");
  }
}

TEST(MegatronIndex, AllTypes) {
  const std::pair<std::uint8_t, TokenType> types[] = {{1, TokenType::u8},  {2, TokenType::i8},  {3, TokenType::i16},
                                                      {4, TokenType::i32}, {5, TokenType::i64}, {8, TokenType::u16}};
  for (const auto& [code, type] : types) {
    const auto width = static_cast<std::uint64_t>(size_of(type));
    EXPECT_EQ(parse_megatron_index(as_bytes(megatron_index(code, width, {3, 0, 5})), 8 * width, "x"),
              (ShardLayout{ShardFormat::megatron, type, 0, 8, 3}));
  }
  EXPECT_FAILS_WITH(parse_megatron_index(as_bytes(megatron_index(6, 4, {3})), 12, "x"), "data type 6");
}

TEST(MegatronIndex, PastFourGigabytes) {
  const std::vector<std::int32_t> lengths(6, 0x40000000);  // 6 * 2^30 tokens of 2 bytes
  EXPECT_EQ(parse_megatron_index(as_bytes(megatron_index(8, 2, lengths)), 12ull << 30, "x").tokens, 6ll << 30);
  EXPECT_FAILS_WITH(parse_megatron_index(as_bytes(megatron_index(8, 2, lengths)), (12ull << 30) & 0xffffffff, "x"),
                    "past the");
}

TEST(MegatronIndex, HostileHeaders) {
  const std::string index = megatron_index(8, 2, {3, 4});
  constexpr std::size_t version = 9, sequences = 18, documents = 26, lengths = 34, offsets = 42, ends = 58;
  const auto parse = [](const std::string& text) { return parse_megatron_index(as_bytes(text), 14, "x"); };
  EXPECT_EQ(parse(index).tokens, 7);
  EXPECT_EQ(parse(index + std::string(2, '\0')).tokens, 7);  // one mode per sequence
  EXPECT_FAILS_WITH(parse(index + std::string(3, '\0')), std::to_string(index.size() + 3) + " bytes", "header",
                    std::to_string(index.size()));
  EXPECT_FAILS_WITH(parse(with(index, version, std::uint64_t{2})), "version 2");
  for (const std::uint64_t count :
       {std::uint64_t{3}, ~std::uint64_t{0}, ~std::uint64_t{0} / 12 + 1, std::uint64_t{1} << 62})
    EXPECT_FAILS_WITH(parse(with(index, sequences, count)), "do not fit");
  for (const std::uint64_t count : {std::uint64_t{4}, ~std::uint64_t{0}, std::uint64_t{1} << 61})
    EXPECT_FAILS_WITH(parse(with(index, documents, count)), "do not fit");
  EXPECT_FAILS_WITH(parse(with(index, lengths, std::int32_t{-3})), "length -3");
  EXPECT_FAILS_WITH(parse(with(index, lengths + 4, std::int32_t{0x7fffffff})), "past the 14 bytes");
  EXPECT_FAILS_WITH(parse(with(index, lengths + 4, std::int32_t{3})), "end at byte 12");
  EXPECT_FAILS_WITH(parse(with(index, offsets + 8, std::int64_t{8})), "contiguous");
  EXPECT_FAILS_WITH(parse(with(index, offsets, std::int64_t{-6})), "contiguous");
  EXPECT_FAILS_WITH(parse(with(index, ends + 8, std::int64_t{3})), "document 1");
  EXPECT_FAILS_WITH(parse(with(index, ends + 8, std::int64_t{-1})), "document 1");
  for (std::size_t size = 0; size < index.size(); ++size) test::failure_of([&] { parse(index.substr(0, size)); });
}

}  // namespace
}  // namespace llmc
