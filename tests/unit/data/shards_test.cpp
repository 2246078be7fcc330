#include "data/shards.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "compiler/tools/dataset/info.h"
#include "files.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;
using test::counting;
using test::Folder;
using test::llmc_shard;

std::shared_ptr<const TokenShards> open(const std::string& pattern, const std::string& format = "auto",
                                        std::int64_t vocab = 65536) {
  return std::make_shared<TokenShards>(pattern, format, vocab, "");
}

std::vector<std::int32_t> sample(const Samples& samples, std::int64_t index) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(samples.sequence_length()) + 1);
  samples.read(index, tokens);
  return tokens;
}

TEST(TokenShards, EveryFormatGivesTheSameSamples) {
  Folder folder;
  const auto tokens = counting(50, 120);
  folder.write("a16.bin", llmc_shard(tokens));
  folder.write("a32.bin", llmc_shard(counting<std::uint32_t>(50, 120)));
  folder.write("raw.bin", test::bytes_of(tokens));
  folder.write("m8.bin", test::bytes_of(counting<std::uint8_t>(50, 120)));
  folder.write("m8.idx", test::megatron_index(1, 1, {20, 30}));
  folder.write("mi8.bin", test::bytes_of(counting<std::int8_t>(50, 120)));
  folder.write("mi8.idx", test::megatron_index(2, 1, {20, 30}));
  folder.write("m16.bin", test::bytes_of(counting<std::int16_t>(50, 120)));
  folder.write("m16.idx", test::megatron_index(3, 2, {50}));
  folder.write("m32.bin", test::bytes_of(counting<std::int32_t>(50, 120)));
  folder.write("m32.idx", test::megatron_index(4, 4, {50}));
  folder.write("m64.bin", test::bytes_of(counting<std::int64_t>(50, 120)));
  folder.write("m64.idx", test::megatron_index(5, 8, {50}));
  for (const char* name : {"a16.bin", "a32.bin", "raw.bin", "m8.bin", "mi8.idx", "m16.idx", "m32.bin", "m64.idx"}) {
    const Samples samples(open(folder / name, std::string(name) == "raw.bin" ? "nanogpt" : "auto", 120), 7);
    ASSERT_EQ(samples.count(), 7) << name;  // (50 - 1) / 7
    for (std::int64_t i = 0; i < 7; ++i) {
      std::vector<std::int32_t> expected;
      for (int t = 0; t < 8; ++t) expected.push_back(static_cast<std::int32_t>((i * 7 + t) % 120));
      EXPECT_EQ(sample(samples, i), expected) << name << " sample " << i;
    }
  }
  folder.write("raw32.bin", test::bytes_of(counting<std::uint32_t>(50, 120)));
  EXPECT_EQ(sample(Samples(open(folder / "raw32.bin", "nanogpt32", 120), 7), 6),
            (std::vector<std::int32_t>{42, 43, 44, 45, 46, 47, 48, 49}));
  EXPECT_EQ(open(folder / "m*", "auto")->shards().size(), 5u);  // both files of a pair are one shard
  EXPECT_EQ(open(folder / "m*", "megatron")->shards().size(), 5u);
}

TEST(Samples, OverlapByOneNeverCrossShardsAndDropTails) {
  Folder folder;
  folder.write("s-0.bin", llmc_shard(counting(9, 1000)));       // T = 4: samples 0..4, 4..8
  folder.write("s-1.bin", llmc_shard(counting(4, 1000, 100)));  // too short: none
  folder.write("s-2.bin", llmc_shard(counting(8, 1000, 200)));  // 200..204, tail dropped
  folder.write("s-3.bin", llmc_shard(std::vector<std::uint16_t>{}));
  folder.write("s-4.bin", llmc_shard(counting(5, 1000, 300)));  // 300..304
  const auto shards = open(folder / "s-?.bin");
  const Samples samples(shards, 4);
  ASSERT_EQ(samples.count(), 4);
  EXPECT_EQ(shards->samples(4), 4);
  EXPECT_EQ(sample(samples, 0), (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(sample(samples, 1), (std::vector<std::int32_t>{4, 5, 6, 7, 8}));
  EXPECT_EQ(sample(samples, 2), (std::vector<std::int32_t>{200, 201, 202, 203, 204}));
  EXPECT_EQ(sample(samples, 3), (std::vector<std::int32_t>{300, 301, 302, 303, 304}));
  EXPECT_EQ(test::failure_of([&] { sample(samples, 4); }, Exit::internal), "sample 4 of 4 does not exist");
  EXPECT_FAILS_WITH(Samples(shards, 100), "has no sample");
}

TEST(TokenShards, OffsetsPast4GiB) {
  Folder folder;
  // A sparse file: only its last page is on the disk.
  constexpr std::int64_t kTokens = (std::int64_t{1} << 32) + 1001;
  folder.write("big.bin", "");
  std::filesystem::resize_file(folder / "big.bin", static_cast<std::uintmax_t>(kTokens) * 2);
  {
    std::fstream file(folder / "big.bin", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp((kTokens - 11) * 2);
    const auto tail = counting(11, 1000, 500);
    file.write(reinterpret_cast<const char*>(tail.data()), 22);
  }
  const Samples samples(open(folder / "big.bin", "nanogpt", 0), 10);
  ASSERT_EQ(samples.count(), (kTokens - 1) / 10);
  ASSERT_EQ((kTokens - 1) % 10, 6);  // so the last sample is tokens [kTokens - 17, kTokens - 7]
  EXPECT_EQ(sample(samples, samples.count() - 1),
            (std::vector<std::int32_t>{0, 0, 0, 0, 0, 0, 500, 501, 502, 503, 504}));
}

/// Pages of a mapped file count as process memory once they are read.
TEST(TokenShards, WhatWasReadIsNoMemoryOfTheProcess) {
  Folder folder(std::filesystem::temp_directory_path());  // files in tmpfs are counted differently
  constexpr std::int64_t kTokens = 16 << 20;
  folder.write("large.bin", std::string(2 * kTokens, '\1'));
  const auto mapped_kib = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("RssFile:")) return std::stol(line.substr(8));
    return -1L;
  };
  const long before = mapped_kib();
  const TokenShards shards(folder / "large.bin", "nanogpt", 1000, "");
  EXPECT_LT(mapped_kib() - before, 2048) << "KiB of 32,768 that were scanned";
  std::vector<std::int32_t> sample(1000);
  for (std::int64_t first = 0; first + 1000 < kTokens; first += 20'000) shards.read(0, first, sample);
  EXPECT_EQ(sample[0], 257);
  EXPECT_GT(before, 0);
  EXPECT_LT(mapped_kib() - before, 2048) << "KiB of 32,768, of which samples were read";
}

/// A mapped file truncated to so many bytes.
class CutShort : public testing::TestWithParam<std::size_t> {};

TEST_P(CutShort, IsSaidWithTheSample) {
  Folder folder;
  const std::string path = folder.write("s.bin", llmc_shard(counting(100'001, 1000)));
  const auto shards = open(path);
  const Samples samples(shards, 100);
  EXPECT_EQ(sample(samples, 999).front(), 900);
  fs::resize_file(path, GetParam());
  EXPECT_FAILS_WITH(sample(samples, 999), "s.bin'", "cut short", "201026", std::to_string(GetParam()) + " bytes",
                    "sample 999", "(tokens 99900 to 100000)");
  EXPECT_FAILS_WITH(shards->fingerprint(), "was cut short");
  EXPECT_FAILS_WITH(scan_max_id(shards->shards()[0]), "was cut short");
}

INSTANTIATE_TEST_SUITE_P(Bytes, CutShort, testing::Values(0, 1024, 100'000, 200'000, 201'024));

TEST(TokenShards, AFileThatIsReplacedOrWrittenToIsSaidWithTheSample) {
  Folder folder;
  const auto shard = [&] { return folder.write("s.bin", llmc_shard(counting(1001, 1000))); };
  const std::string path = shard();
  {
    const Samples samples(open(path), 100);
    fs::rename(folder.write("new.bin", llmc_shard(counting(1001, 1000))), path);
    EXPECT_FAILS_WITH(sample(samples, 3), "s.bin'", "replaced by another file", "sample 3", "(tokens 300 to 400)",
                      "rerun the same command");
  }
  {
    const Samples samples(open(path), 100);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // past the resolution of file times
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1024);
    file << "ab" << std::flush;
    EXPECT_FAILS_WITH(sample(samples, 3), "s.bin'", "was written to", "sample 3");
  }
  {
    const Samples samples(open(path), 100);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fs::resize_file(path, 1100);
    fs::resize_file(path, 1024 + 2002);  // whole again, with zeros
    EXPECT_FAILS_WITH(sample(samples, 3), "s.bin'", "was written to", "sample 3");
  }
  shard();
  const Samples samples(open(path), 100);
  fs::remove(path);
  EXPECT_EQ(sample(samples, 3).front(), 300) << "its bytes are still there";
}

TEST(MappedFiles, ASignalForAnotherAddressEndsTheProcess) {
  Folder folder;
  const MappedFile file(folder.write("a.bin", std::string(5000, 'x')));
  const auto touch = [&] {
    const std::string other = folder.write("b.bin", std::string(5000, 'x'));
    const int fd = ::open(other.c_str(), O_RDONLY);
    const auto* bytes = static_cast<const volatile char*>(::mmap(nullptr, 5000, PROT_READ, MAP_SHARED, fd, 0));
    fs::resize_file(other, 0);
    std::exit(bytes[0] == 'x' ? 0 : 1);
  };
  EXPECT_EXIT(touch(), testing::KilledBySignal(SIGBUS), "");
}

TEST(TokenShards, IdsOutsideTheVocabularyAreRefused) {
  Folder folder;
  folder.write("a.bin", llmc_shard<std::uint16_t>({1, 2, 99, 3}));
  folder.write("wide.bin", llmc_shard<std::uint32_t>({1, 0xffffffff, 3}));
  folder.write("signed.bin", test::bytes_of(std::vector<std::int32_t>{1, -1, 3}));
  folder.write("signed.idx", test::megatron_index(4, 4, {3}));
  EXPECT_NO_THROW(open(folder / "a.bin", "auto", 100));
  EXPECT_FAILS_WITH(open(folder / "a.bin", "auto", 99), "a.bin': has token 99", "vocab_size is 99");
  EXPECT_FAILS_WITH(open(folder / "wide.bin", "auto", 1 << 30), "has token 4294967295");
  EXPECT_FAILS_WITH(open(folder / "signed.bin", "auto", 1 << 30), "has token -1");
  // Reading checks ids even without the scan.
  EXPECT_FAILS_WITH(sample(Samples(open(folder / "wide.bin", "auto", 0), 2), 0), "has token 4294967295");
  EXPECT_FAILS_WITH(sample(Samples(open(folder / "signed.bin", "auto", 0), 2), 0), "has token -1");
}

TEST(TokenShards, RawTokensOfAnotherWidth) {
  Folder folder;
  auto wide = counting<std::uint32_t>(20'000, 100'000);
  folder.write("wide.bin", test::bytes_of(wide));
  folder.write("narrow.bin", test::bytes_of(counting(20'000, 50'000)));
  folder.write("zeros.bin", std::string(40'000, '\0'));
  EXPECT_FAILS_WITH(open(folder / "wide.bin", "nanogpt", 100'000), "wide.bin'", "uint16", "vocab_size 100000", "65,535",
                    "'format: nanogpt32'");
  EXPECT_NO_THROW(open(folder / "narrow.bin", "nanogpt", 65'536));
  EXPECT_FAILS_WITH(open(folder / "narrow.bin", "nanogpt", 65'537), "uint16", "vocab_size 65537");
  EXPECT_EQ(open(folder / "wide.bin", "nanogpt32", 100'000)->tokens(), 20'000);
  EXPECT_FAILS_WITH(open(folder / "narrow.bin", "nanogpt32", 100'000), "'format: nanogpt'", "uint16");
  // Every second number is 0 or 1.
  const std::string warning = open(folder / "wide.bin", "nanogpt")->warning();
  EXPECT_TRUE(test::has_facts(warning, {"wide.bin'", "uint16", "0 or 1", "'format: nanogpt32'"}));
  EXPECT_EQ(data::describe(folder / "wide.bin", "nanogpt", 0).warning, warning);
  for (const char* name : {"narrow.bin", "zeros.bin"}) EXPECT_EQ(open(folder / name, "nanogpt")->warning(), "") << name;
  EXPECT_EQ(open(folder / "wide.bin", "nanogpt32", 100'000)->warning(), "");
  // Some tokens above 131,071, as a vocabulary of 151,936 has them.
  for (std::size_t i = 0; i < wide.size(); i += 13) wide[i] = 150'000;
  folder.write("wide.bin", test::bytes_of(wide));
  EXPECT_NE(open(folder / "wide.bin", "nanogpt")->warning(), "");
}

TEST(TokenShards, OtherFilesAreCalledByTheirName) {
  Folder folder;
  const auto npy = [](const std::string& type) {
    return "\x93NUMPY\x01" + std::string("\0\x76\0", 3) + "{'descr': '" + type + "', 'fortran_order': False, }";
  };
  struct Case {
    std::string bytes;
    test::Facts kind;
    std::string command;
  };
  for (const Case& c :
       {Case{npy("<u2"), {"NumPy .npy", "(<u2)"}, "numpy.load(FILE).tofile(NEW), and set 'format: nanogpt'"},
        {npy("<u4"), {"NumPy .npy", "(<u4)"}, "numpy.load(FILE).tofile(NEW), and set 'format: nanogpt32'"},
        {npy("<i8"),
         {"NumPy .npy", "(<i8)"},
         "numpy.load(FILE).astype('uint32').tofile(NEW), and set 'format: "
         "nanogpt32'"},
        {"PAR1\x15\x04", "Parquet", ""},
        {"\x1f\x8b\x08\x04", "gzip", ""},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n", "Git LFS", "`git lfs pull`"}}) {
    folder.write("a.npy", c.bytes);
    for (const char* format : {"auto", "llmc", "nanogpt", "nanogpt32"}) {
      const std::string said = test::failure_of([&] { open(folder / "a.npy", format); });
      EXPECT_TRUE(test::has_facts(said, "a.npy': "));
      EXPECT_TRUE(test::has_facts(said, c.kind));
      EXPECT_TRUE(test::has_facts(said, c.command));
    }
  }
  folder.write("a.npy", test::bytes_of(counting<std::uint32_t>(50, 120)));  // OLMo's files have no header
  EXPECT_EQ(open(folder / "a.npy", "nanogpt32", 120)->tokens(), 50);
}

TEST(TokenShards, EachShardHasAnIdentityOfItsOwn) {
  Folder folder;
  folder.write("one/a.bin", llmc_shard(counting(400'000, 5000)));
  folder.write("one/b.bin", llmc_shard(counting(10)));
  folder.write("two/c.bin", llmc_shard(counting(10)));
  const auto all = open(folder / "*/*.bin")->identify();
  ASSERT_EQ(all.shards.size(), 3u);
  EXPECT_EQ(all.fingerprint, open(folder / "*/*.bin")->fingerprint());
  EXPECT_EQ(all.shards[0].file, "one/a.bin");
  EXPECT_EQ(all.shards[0].tokens, 400'000);
  EXPECT_EQ(all.shards[1].xxh3, all.shards[2].xxh3);
  EXPECT_EQ(open(folder / "one/*.bin")->identify().shards[1].file, "b.bin");
  EXPECT_EQ(open(folder / "one/b.bin")->fingerprint(), all.shards[1].xxh3);
}

TEST(ShardChanges, AddedRenamedRemovedChanged) {
  const std::vector<ShardRecord> before = {{"a.bin", 10, "1"}, {"b.bin", 20, "2"}, {"c.bin", 30, "3"}};
  EXPECT_EQ(shard_changes(before, before), "");
  EXPECT_EQ(shard_changes(before, {{"a.bin", 10, "1"}, {"b.bin", 25, "4"}, {"d.bin", 30, "3"}, {"e.bin", 30, "5"}}),
            "changed 'b.bin' (25 tokens, 20 before), renamed 'c.bin' to 'd.bin', added 'e.bin'");
  EXPECT_EQ(shard_changes(before, {{"a.bin", 10, "1"}}), "removed 'b.bin', removed 'c.bin'");
  std::vector<ShardRecord> many = before;
  for (int i = 0; i < 20; ++i) many.push_back({"x" + std::to_string(i), 1, "x"});
  EXPECT_TRUE(shard_changes(before, many).ends_with("added 'x15' and 12 more")) << shard_changes(before, many);
}

TEST(TokenShards, ScansAFileOnceAndAgainWhenItChanges) {
  Folder folder, cache;
  folder.write("a.bin", llmc_shard<std::uint16_t>({1, 2, 3}));
  const auto open_cached = [&](std::int64_t vocab) {
    TokenShards(folder / "a.bin", "auto", vocab, cache.path / "sub");
  };
  open_cached(10);
  ASSERT_EQ(std::distance(std::filesystem::directory_iterator(cache.path / "sub"), {}), 1);
  const std::string entry = std::filesystem::directory_iterator(cache.path / "sub")->path();
  // Proves that the cache is used: a planted answer is taken, one about another file is not.
  std::string text = cache.read("sub/" + std::filesystem::path(entry).filename().string());
  ASSERT_EQ(text.substr(0, 2), "3 ");
  std::ofstream(entry, std::ios::binary) << "77" << text.substr(1);
  EXPECT_FAILS_WITH(open_cached(10), "has token 77");
  std::ofstream(entry, std::ios::binary) << "77 " << text.substr(3);
  EXPECT_NO_THROW(open_cached(10));
  std::ofstream(entry, std::ios::binary) << "garbage";
  EXPECT_NO_THROW(open_cached(10));
  std::filesystem::remove(folder / "a.bin");
  folder.write("a.bin", llmc_shard<std::uint16_t>({1, 2, 30, 3}));
  EXPECT_FAILS_WITH(open_cached(10), "has token 30");
}

TEST(TokenShards, ACacheThatCannotBeWrittenOnlyCostsTime) {
  Folder folder;
  folder.write("a.bin", llmc_shard<std::uint16_t>({1, 2, 3}));
  folder.write("file", "");
  EXPECT_NO_THROW(TokenShards(folder / "a.bin", "auto", 10, folder / "file/below"));
  EXPECT_NO_THROW(TokenShards(folder / "a.bin", "auto", 10, "/proc/llmc"));
}

TEST(TokenShards, RefusesWhatItCannotKnow) {
  Folder folder;
  folder.write("text.txt", "once upon a time");
  folder.write("empty.bin", "");
  folder.write("lonely.idx", test::megatron_index(8, 2, {1}));
  ::mkfifo((folder / "pipe.bin").c_str(), 0600);
  EXPECT_FAILS_WITH(open(folder / "text.txt"), "llm.c's", "Megatron's");
  std::string verse;
  while (verse.size() < 5000) verse += "Zwölf Boxkämpfer, \"quer\" über den Sylter Deich.\n";
  folder.write("long.txt", verse);
  // As raw tokens its ids would be below 50,257.
  for (const char* format : {"auto", "nanogpt", "nanogpt32"})
    EXPECT_FAILS_WITH(open(folder / "long.txt", format), "long.txt': is text");
  folder.write("tokens.bin", std::string(1, '\0') + verse.substr(0, 4999));
  EXPECT_FAILS_WITH(open(folder / "tokens.bin"), "llm.c's", "Megatron's");
  EXPECT_FAILS_WITH(open(folder / "empty.bin"), "empty.bin': is empty");
  EXPECT_FAILS_WITH(open(folder / "empty.bin", "nanogpt"), "is empty");
  EXPECT_FAILS_WITH(open(folder / "lonely.idx"), "lonely.bin");
  EXPECT_FAILS_WITH(open(folder / "text.txt", "megatron"), "NAME.idx and NAME.bin");
  EXPECT_FAILS_WITH(open(folder / "pipe.bin"), "pipe.bin'", "regular file");  // and does not wait for a writer
  EXPECT_FAILS_WITH(open(folder / "text.txt", "parquet"), "unknown format 'parquet'");
  EXPECT_FAILS_WITH(open(folder / "missing.bin"), "no file matches");
}

TEST(TokenShards, FingerprintFollowsContentAndNotPaths) {
  Folder one, two;
  const auto big = counting(400000, 5000);
  one.write("a-0.bin", llmc_shard(big));
  one.write("a-1.bin", llmc_shard(counting(10)));
  two.write("elsewhere/b-0.bin", llmc_shard(big));
  two.write("elsewhere/b-1.bin", llmc_shard(counting(10)));
  const std::string fingerprint = open(one / "a-*.bin")->fingerprint();
  EXPECT_EQ(fingerprint.size(), 16u);
  EXPECT_EQ(fingerprint, open(two / "elsewhere/b-*.bin")->fingerprint());
  EXPECT_NE(fingerprint, open(one / "a-0.bin")->fingerprint());
  const auto with_other_tokens = [&](std::size_t first, std::size_t count) {
    auto changed = big;
    for (std::size_t i = first; i < first + count; ++i) changed[i] = static_cast<std::uint16_t>(4999 - changed[i]);
    two.write("elsewhere/b-0.bin", llmc_shard(changed));
    return open(two / "elsewhere/b-*.bin")->fingerprint();
  };
  EXPECT_NE(fingerprint, with_other_tokens(0, 1));
  EXPECT_NE(fingerprint, with_other_tokens(big.size() - 1, 1));
  // Between both ends only blocks are read: any change as long as the gap between two blocks is detected.
  constexpr std::size_t kGap = 24'500;
  for (std::size_t first = 0; first + kGap <= big.size(); first += kGap / 2)
    EXPECT_NE(fingerprint, with_other_tokens(first, kGap)) << "tokens " << first << " to " << first + kGap;
}

TEST(DataInfo, TextAndJson) {
  Folder folder;
  folder.write("a.bin", llmc_shard(counting(1234, 600)));
  folder.write("m.bin", test::bytes_of(counting(30)));
  folder.write("m.idx", test::megatron_index(8, 2, {10, 20}));
  const std::string text = data::as_text(data::describe(folder / "*.bin", "auto", 16));
  EXPECT_NE(text.find("a.bin: llm.c uint16 (uint16), 1,234 tokens, largest id 599, 77 samples\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("m.bin: megatron (uint16), 30 tokens, largest id 29, 2 documents, 1 sample\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("2 files, 1,264 tokens, 78 samples of 16 tokens, fingerprint "), std::string::npos) << text;
  const std::string json = data::as_json(data::describe(folder / "a.bin", "auto", 0));
  EXPECT_NE(json.find("\"max_id\": 599"), std::string::npos) << json;
  EXPECT_EQ(json.find("samples"), std::string::npos) << json;
}

}  // namespace
}  // namespace llmc
