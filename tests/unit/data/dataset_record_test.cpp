// dataset.json: what it records of shards, starts that read it instead of the shards, and the commands on it.
#include "data/dataset_record.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "compiler/tools/dataset/builder.h"
#include "compiler/tools/dataset/info.h"
#include "compiler/tools/dataset/look.h"
#include "compiler/tools/dataset/verify.h"
#include "data/shard_tokenizer.h"
#include "data/tokenizer.h"
#include "files.h"
#include "files/durable_file.h"
#include "source_text.h"

namespace llmc::data {
namespace {

namespace fs = std::filesystem;
using test::Folder;

class DatasetRecordTest : public testing::Test {
 protected:
  DatasetRecordTest() {
    for (unsigned i = 0; i < 30; ++i) corpus_.write("f" + std::to_string(i) + ".py", test::source_text(i, 4));
    build_dataset({.from = {corpus_.path},
                   .globs = {},
                   .vocab_size = 500,
                   .tokenizer = {},
                   .out = set(),
                   .validation = 0.2,
                   .shard_tokens = 1500,
                   .threads = 2,
                   .progress = {}});
  }
  fs::path set() const { return out_.path / "set"; }
  nlohmann::json json() const { return nlohmann::json::parse(out_.read("set/dataset.json")); }
  DatasetRecord record() const { return *read_dataset_record(set()); }
  std::string shard(const char* name) const { return (set() / name).string(); }
  TokenShards train(std::int64_t vocab_size = 500) const { return {shard("train-*.bin"), "auto", vocab_size, ""}; }
  /// Writes other content of the same size.
  void overwrite(const std::string& name, fs::file_time_type time) const {
    out_.write("set/" + name, std::string(fs::file_size(set() / name), '\7'));
    fs::last_write_time(set() / name, time);
  }
  fs::file_time_type time() const { return fs::last_write_time(set() / kDatasetFile); }

  Folder corpus_, out_;
};

TEST_F(DatasetRecordTest, RecordsWhatTheShardsHold) {
  const DatasetRecord dataset = record();
  Folder copy;  // without dataset.json
  for (const auto& [prefix, side] : {std::pair("train", &dataset.train), {"val", &dataset.validation}}) {
    ASSERT_FALSE(side->shards.empty());
    for (const DatasetShard& shard : side->shards) fs::copy_file(set() / shard.file, copy.path / shard.file);
    const TokenShards there((copy.path / (std::string(prefix) + "-*.bin")).string(), "auto", 500, "");
    const TokenShards::Identity identity = there.identify();
    EXPECT_EQ(identity.fingerprint, side->fingerprint);
    ASSERT_EQ(there.shards().size(), side->shards.size());
    std::int64_t documents = 0, tokens = 0;
    for (std::size_t i = 0; i < side->shards.size(); ++i) {
      const DatasetShard& shard = side->shards[i];
      EXPECT_EQ(shard.tokens, there.shards()[i].layout.tokens);
      EXPECT_EQ(shard.max_id, static_cast<std::int64_t>(scan_max_id(there.shards()[i])));
      EXPECT_EQ(shard.xxh3, file_checksum(set() / shard.file));
      EXPECT_EQ(shard.sampled, identity.shards[i].xxh3);
      std::vector<std::int32_t> ids(static_cast<std::size_t>(shard.tokens));
      there.read(i, 0, ids);
      EXPECT_EQ(shard.documents, std::ranges::count(ids, dataset.separator_id));
      documents += shard.documents;
      tokens += shard.tokens;
    }
    EXPECT_EQ(documents, side->documents);
    EXPECT_EQ(tokens, side->tokens);
  }
  EXPECT_GT(dataset.train.shards.size(), 2u);
  EXPECT_EQ(dataset.tokenizer_xxh3, file_checksum(set() / dataset.tokenizer));
  EXPECT_EQ(train().fingerprint(), dataset.train.fingerprint);
}

TEST_F(DatasetRecordTest, ShardsThatItDescribesAreNotRead) {
  const TokenShards::Identity before = train().identify();
  overwrite("train-00001.bin", time());
  const TokenShards shards = train();  // its header would be refused
  EXPECT_EQ(shards.shards()[1].layout.tokens, 1500);
  EXPECT_EQ(shards.identify().fingerprint, before.fingerprint);
  EXPECT_EQ(shards.identify().shards, before.shards);
  EXPECT_FAILS_WITH(train(record().train.shards[0].max_id), "train-00000.bin", "has token", "vocab_size is");
  std::vector<std::int32_t> ids(10);
  EXPECT_FAILS_WITH(shards.read(1, 0, ids), "train-00001.bin", "has token 1799", "damaged") << "ids are checked";
}

TEST_F(DatasetRecordTest, OtherShardsAreRead) {
  const std::string before = train().fingerprint();
  // Newer than dataset.json.
  overwrite("train-00001.bin", time() + std::chrono::seconds(1));
  EXPECT_FAILS_WITH(train(), "train-00001.bin", "is neither llm.c's nor Megatron's");
  out_.write("set/train-00001.bin", out_.read("set/train-00000.bin"));
  fs::last_write_time(set() / "train-00001.bin", time() + std::chrono::seconds(1));
  EXPECT_NE(train().fingerprint(), before);
  // Another size.
  out_.write("set/train-00001.bin", test::llmc_shard(test::counting(7, 400)));
  fs::last_write_time(set() / "train-00001.bin", time());
  EXPECT_EQ(train().shards()[1].layout.tokens, 7);
  // A part of the side has another fingerprint.
  EXPECT_NE(TokenShards(shard("train-00000.bin"), "auto", 500, "").fingerprint(), before);
  // Records without the checksum of a share of the fingerprint.
  nlohmann::json partial = json();
  for (auto& entry : partial["train"]["shards"]) entry.erase("sampled_xxh3");
  partial["train"].erase("fingerprint");
  out_.write("set/dataset.json", partial.dump());
  const std::string computed = train().fingerprint();
  const std::string first = out_.read("set/train-00000.bin");
  overwrite("train-00000.bin", time());
  EXPECT_NE(train().fingerprint(), computed) << "opened by its record, and read for the fingerprint";
  out_.write("set/train-00000.bin", first);
  // Records without the largest id.
  nlohmann::json old = json();
  for (auto& entry : old["train"]["shards"]) entry.erase("max_id");
  out_.write("set/dataset.json", old.dump());
  EXPECT_EQ(train().shards().size(), record().train.shards.size());
  overwrite("train-00000.bin", time());
  EXPECT_FAILS_WITH(train(), "train-00000.bin", "is neither llm.c's nor Megatron's");
}

TEST_F(DatasetRecordTest, AnUnusableDescriptionIsNamedByCommandsAndIgnoredByRuns) {
  const std::string good = out_.read("set/dataset.json");
  for (const auto& [key, value, facts] : std::vector<std::tuple<const char*, nlohmann::json, test::Facts>>{
           {"/train/shards/0/file", "../secret", {"'file' is not the name of a file"}},
           {"/train/shards/0/tokens", -1, {"'tokens' is not a count"}},
           {"/train/shards/0/tokens", 1e300, {"'tokens' is not a count"}},
           {"/train/shards/0/tokens", std::int64_t{1} << 31, {"'tokens' is not a count"}},
           {"/train/shards/0/xxh3", "12", {"'xxh3' is not a checksum"}},
           {"/train/shards", 7, {"'shards' is not a list"}},
           {"/validation", nullptr, {"null where an object is expected"}},
           {"/separator_id", std::int64_t{1} << 40, {"'separator_id' is not a token"}},
           {"/token_type", "float", {"'token_type'"}}}) {
    nlohmann::json changed = nlohmann::json::parse(good);
    changed[nlohmann::json::json_pointer(key)] = value;
    out_.write("set/dataset.json", changed.dump());
    test::Facts all = facts;
    all.insert(all.begin(), "dataset.json");
    EXPECT_TRUE(test::has_facts(test::failure_of([&] { verify_dataset(set()); }), all)) << key;
    EXPECT_NO_THROW(train()) << key;
  }
  out_.write("set/dataset.json", good.substr(0, good.size() / 2));
  EXPECT_FAILS_WITH(describe(set().string(), "auto", 0), "dataset.json", "it is not JSON at byte");
  EXPECT_NO_THROW(train());
}

TEST_F(DatasetRecordTest, VerifyNamesEveryDefect) {
  const DatasetVerdict good = verify_dataset(set());
  EXPECT_TRUE(good.damage.empty() && good.unlisted.empty());
  EXPECT_EQ(good.tokens, record().train.tokens + record().validation.tokens);
  EXPECT_TRUE(test::has_facts(verdict_text(good), {set().string(), "complete ("}));
  std::string flipped = out_.read("set/train-00001.bin");
  flipped[1200] = static_cast<char>(flipped[1200] ^ 1);
  out_.write("set/train-00001.bin", flipped);
  fs::resize_file(set() / "train-00000.bin", 2000);
  fs::remove(set() / "val-00000.bin");
  out_.write("set/tokenizer.model", "other");
  out_.write("set/more.bin", "x");
  const DatasetVerdict bad = verify_dataset(set());
  EXPECT_EQ(bad.unlisted, std::vector<std::string>{"more.bin"});
  EXPECT_EQ(bad.damage.size(), 4u);
  EXPECT_TRUE(test::has_facts(verdict_text(bad),
                              {"damaged", "tokenizer.model: has the checksum",
                               "train-00000.bin: has 2000 bytes instead of 4024", "train-00001.bin: has the checksum",
                               "instead of " + record().train.shards[1].xxh3, "val-00000.bin: does not exist"}));
  const auto parsed = nlohmann::json::parse(verdicts_json({good, bad}));
  EXPECT_EQ(parsed[0]["complete"], true);
  EXPECT_EQ(parsed[1]["damage"][1]["file"], "train-00000.bin");
}

TEST_F(DatasetRecordTest, VerifyNeedsChecksums) {
  nlohmann::json old = json();
  old["train"]["tokens"] = 3;
  out_.write("set/dataset.json", old.dump());
  EXPECT_TRUE(test::has_facts(verdict_text(verify_dataset(set())),
                              {"dataset.json: the shards of train have", "tokens together instead of 3"}));
  old["validation"]["shards"][0].erase("xxh3");
  out_.write("set/dataset.json", old.dump());
  EXPECT_FAILS_WITH(verify_dataset(set()), "dataset.json", "no checksum of val-00000.bin", "llmc data build");
  fs::remove(set() / "dataset.json");
  EXPECT_FAILS_WITH(verify_dataset(set()), "has no dataset.json");
  EXPECT_FAILS_WITH(verify_dataset(set() / "nothing"), "there is no folder");
}

TEST_F(DatasetRecordTest, InfoHasTheLengthsOfEachSide) {
  const DataInfo info = describe(set().string(), "auto", 0);
  ASSERT_EQ(info.sides.size(), 2u);
  const DatasetRecord dataset = record();
  EXPECT_EQ(info.sides[0].name, "train");
  EXPECT_EQ(info.sides[0].lengths.documents(), dataset.train.documents) << "documents over several shards count once";
  EXPECT_EQ(info.sides[1].lengths.documents(), dataset.validation.documents);
  const auto parsed = nlohmann::json::parse(as_json(info));
  std::int64_t sum = 0;
  for (const auto& bucket : parsed["sides"]["train"]["lengths"]) sum += bucket["documents"].get<std::int64_t>();
  EXPECT_EQ(sum, dataset.train.documents);
  EXPECT_DOUBLE_EQ(parsed["sides"]["train"]["bytes_per_token"].get<double>(),
                   static_cast<double>(dataset.train.bytes) / static_cast<double>(dataset.train.tokens));
  EXPECT_TRUE(test::has_facts(as_text(info), {"train: ", " documents of ", "bytes a token", "#", "validation: "}));
  fs::remove(set() / "train-00001.bin");
  const DataInfo part = describe(set().string(), "auto", 0);
  ASSERT_EQ(part.sides.size(), 1u) << "the lengths of a part would be wrong";
  EXPECT_EQ(part.sides[0].name, "validation");
  EXPECT_EQ(part.files.size(), info.files.size() - 1);
}

TEST(Lengths, CountsDocumentsByPowersOfTwo) {
  Folder folder;
  // Documents of 1, 2, 3, 4, and 7 tokens with the separator 9; the last tokens are no document.
  folder.write("a-0.bin", test::llmc_shard(std::vector<std::uint16_t>{9, 1, 9, 1, 1, 9, 1, 1, 1, 9, 1, 1, 1}));
  folder.write("a-1.bin", test::llmc_shard(std::vector<std::uint16_t>{1, 1, 1, 9, 5, 5}));
  Lengths lengths(9);
  lengths.add(TokenShards(folder / "a-*.bin", "auto", 0, ""));
  EXPECT_EQ(lengths.documents(), 5);
  EXPECT_EQ(lengths.longest(), 7);
  EXPECT_EQ(lengths_json(lengths).dump(),
            R"([{"from":1,"to":1,"documents":1},{"from":2,"to":3,"documents":2},{"from":4,"to":7,"documents":2}])");
  EXPECT_TRUE(test::has_facts(lengths_text(lengths), {"1 to", "1 tokens", "4 to", "7 tokens", "2  ####"}));
  EXPECT_EQ(lengths_text(Lengths(9)), "");
  Lengths one_by_one(9);
  one_by_one.add(TokenShards(folder / "a-0.bin", "auto", 0, ""));
  one_by_one.add(TokenShards(folder / "a-1.bin", "auto", 0, ""));
  EXPECT_EQ(one_by_one.counts(), lengths.counts());
  EXPECT_EQ(one_by_one.longest(), 7);
}

TEST_F(DatasetRecordTest, LookShowsTheTokensOfASample) {
  const Tokenizer tokenizer(set() / "tokenizer.model");
  const Look first = look({.file = set().string(), .tokenizer = {}, .sample = 0, .sequence_length = 20});
  ASSERT_EQ(first.tokens.size(), 21u);
  std::vector<std::int32_t> ids(21);
  train().read(0, 0, ids);
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(first.tokens[i].id, ids[i]);
    text += first.tokens[i].bytes;
  }
  EXPECT_EQ(text, tokenizer.decode(ids));
  EXPECT_EQ(first.samples, train().samples(20));
  // The first sample of the second shard, and one with the end of a document.
  const std::int64_t of_first = (1500 - 1) / 20;
  const Look second = look({.file = set().string(), .tokenizer = {}, .sample = of_first, .sequence_length = 20});
  EXPECT_EQ(second.shard, shard("train-00001.bin"));
  EXPECT_EQ(second.first, 0);
  const Look held = look({.file = set().string(), .validation = true, .tokenizer = {}, .sequence_length = 600});
  EXPECT_TRUE(test::has_facts(look_text(held), {"val-00000.bin: sample 0 of ", "tokens 0 to 600", "│", "</s>"}));
  EXPECT_EQ(nlohmann::json::parse(look_json(held))["tokens"].size(), 601u);
  EXPECT_FAILS_WITH(look({.file = set().string(), .tokenizer = {}, .sample = 1 << 20}), "there is no sample 1048576",
                    "--sample 0 to");
  fs::rename(set() / "tokenizer.model", out_.path / "tokenizer.model");
  EXPECT_FAILS_WITH(look({.file = set().string(), .tokenizer = {}}), "tokenizer.model", "--tokenizer");
  EXPECT_EQ(look({.file = set().string(), .tokenizer = out_.path, .sequence_length = 20}).tokens[7].id, ids[7]);
}

TEST_F(DatasetRecordTest, TheTokenizerOfShardsIsTheRecordedOne) {
  const fs::path pattern = set() / "val-*.bin", own = set() / "tokenizer.model";
  const auto other = std::make_shared<const Tokenizer>(fs::path(out_.write(
      "other.json",
      R"({"decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})")));
  EXPECT_EQ(tokenizer_of_shards(pattern, nullptr)->vocab_size(), 500);
  EXPECT_EQ(tokenizer_of_shards(pattern, other)->vocab_size(), 500);
  EXPECT_EQ(tokenizer_mismatch(pattern, own), "");
  EXPECT_EQ(tokenizer_mismatch(pattern, ""), "");
  EXPECT_EQ(tokenizer_mismatch(pattern, out_ / "nothing"), "") << "its user reports it";
  EXPECT_TRUE(test::has_facts(
      tokenizer_mismatch(pattern, out_ / "other.json"),
      {pattern.string(), out_ / "other.json", record().tokenizer_xxh3, file_checksum(out_ / "other.json")}));
  nlohmann::json changed = json();
  changed["tokenizer_json_xxh3"] = file_checksum(out_ / "other.json");
  out_.write("set/dataset.json", changed.dump());
  EXPECT_EQ(tokenizer_mismatch(pattern, out_ / "other.json"), "") << "the same tokenizer in another format";
  // A tokenizer that is not the recorded one is of the shards only if no other is named.
  changed["tokenizer_xxh3"] = "0123456789abcdef";
  out_.write("set/dataset.json", changed.dump());
  EXPECT_EQ(tokenizer_of_shards(pattern, other), other);
  fs::remove(set() / "dataset.json");
  EXPECT_EQ(tokenizer_of_shards(pattern, other), other);
  EXPECT_EQ(tokenizer_of_shards(pattern, nullptr)->vocab_size(), 500);
  EXPECT_EQ(tokenizer_mismatch(pattern, out_ / "other.json"), "");
  out_.write("set/tokenizer.model", "damaged");
  EXPECT_EQ(tokenizer_of_shards(pattern, nullptr), nullptr);
  fs::remove(own);
  EXPECT_EQ(tokenizer_of_shards(pattern, nullptr), nullptr);
}

TEST(Look, MarksWhatIsNotPrinted) {
  const Look look{
      .shard = "a", .sample = 0, .samples = 1, .first = 0, .tokens = {{1, "a\n"}, {2, "\xe2"}, {3, "\x1b"}}};
  EXPECT_EQ(look_text(look), "a: sample 0 of 1, tokens 0 to 2\na⏎\n│\\xe2│\\x1b\n");
}

}  // namespace
}  // namespace llmc::data
