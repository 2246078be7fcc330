#include <fcntl.h>
#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "compiler/tools/dataset/build_record.h"
#include "compiler/tools/dataset/builder.h"
#include "compiler/tools/dataset/info.h"
#include "compiler/tools/dataset/slow_lines.h"
#include "compiler/tools/dataset/time_left.h"
#include "compressed.h"
#include "data/shards.h"
#include "data/tokenizer.h"
#include "files.h"
#include "files/durable_file.h"
#include "source_text.h"
#include "text/console.h"

namespace llmc::data {
namespace {

using test::Folder;
namespace fs = std::filesystem;

/// A sentencepiece model trained as `llmc data build` does, with these options changed.
std::string model_with(const std::unordered_map<std::string, std::string>& changes) {
  class Sentences : public sentencepiece::SentenceIterator {
   public:
    bool done() const override { return at_ == 50; }
    void Next() override { value_ = test::source_text(++at_, 4); }
    const std::string& value() const override { return value_; }
    sentencepiece::util::Status status() const override { return {}; }

   private:
    unsigned at_ = 0;
    std::string value_ = test::source_text(0, 4);
  } sentences;
  std::unordered_map<std::string, std::string> options = {{"model_type", "bpe"},
                                                          {"vocab_size", "400"},
                                                          {"hard_vocab_limit", "false"},
                                                          {"byte_fallback", "true"},
                                                          {"normalization_rule_name", "identity"},
                                                          {"remove_extra_whitespaces", "false"},
                                                          {"add_dummy_prefix", "false"},
                                                          {"unk_id", "0"},
                                                          {"eos_id", "1"},
                                                          {"bos_id", "-1"},
                                                          {"pad_id", "-1"},
                                                          {"minloglevel", "2"}};
  for (const auto& [key, value] : changes) options[key] = value;
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &sentences, &model);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return model;
}

class BuildDatasetTest : public testing::Test {
 protected:
  BuildDatasetTest() {
    for (unsigned i = 0; i < 40; ++i) texts_.insert(test::source_text(i, 4));
    unsigned i = 0;
    for (const std::string& text : texts_) corpus_.write("f" + std::to_string(i++) + ".py", text);
    options_.from = {corpus_.path};
    options_.vocab_size = 500;
    options_.out = out_.path / "data";
    options_.force = true;
    options_.threads = 2;
  }
  /// Documents of a side, decoded from its shards.
  std::vector<std::string> documents(const std::string& side) const {
    const Tokenizer tokenizer(options_.out / "tokenizer.model");
    const TokenShards shards((options_.out / (side + "-*.bin")).string(), "auto", tokenizer.vocab_size(), "");
    std::vector<std::int32_t> tokens;
    for (std::size_t i = 0; i < shards.shards().size(); ++i) {
      std::vector<std::int32_t> part(static_cast<std::size_t>(shards.shards()[i].layout.tokens));
      shards.read(i, 0, part);
      tokens.insert(tokens.end(), part.begin(), part.end());
    }
    std::vector<std::string> texts;
    std::size_t begin = 0;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      if (tokens[t] != tokenizer.separator_id()) continue;
      texts.push_back(tokenizer.decode(std::span(tokens).subspan(begin, t - begin)));
      begin = t + 1;
    }
    EXPECT_EQ(begin, tokens.size()) << "every document ends with the separator";
    return texts;
  }
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(out_.path))
      if (entry.is_regular_file())
        found[fs::relative(entry.path(), out_.path).string()] =
            out_.read(fs::relative(entry.path(), out_.path).string());
    return found;
  }
  Folder corpus_, out_;
  std::set<std::string> texts_;
  DatasetOptions options_;
};

TEST_F(BuildDatasetTest, EveryDocumentIsThereOnceAndWhole) {
  options_.shard_tokens = 1000;
  const BuildResult result = build_dataset(options_);
  EXPECT_EQ(result.vocab_size, 500);
  const std::vector<std::string> train = documents("train"), validation = documents("val");
  EXPECT_EQ(train.size() + validation.size(), texts_.size());
  std::set<std::string> all(train.begin(), train.end());
  all.insert(validation.begin(), validation.end());
  EXPECT_EQ(all, texts_);
  EXPECT_GE(validation.size(), 1u);
  EXPECT_EQ(result.train.documents, static_cast<std::int64_t>(train.size()));
  EXPECT_EQ(result.validation.documents, static_cast<std::int64_t>(validation.size()));
  ASSERT_GT(result.train.shards.size(), 2u);
  for (std::size_t i = 0; i + 1 < result.train.shards.size(); ++i) EXPECT_EQ(result.train.shards[i].tokens, 1000);
  const auto json = nlohmann::json::parse(out_.read("data/dataset.json"));
  EXPECT_EQ(json["train"]["tokens"], result.train.tokens);
  EXPECT_EQ(json["validation"]["documents"], result.validation.documents);
  EXPECT_EQ(json["train"]["shards"][0]["file"], "train-00000.bin");
  EXPECT_EQ(json["token_type"], "uint16");
  EXPECT_GT(result.bytes_per_token(), 2.0);
  EXPECT_EQ(fs::file_size(options_.out / "train-00000.bin"), 1024u + 2 * 1000);
}

TEST_F(BuildDatasetTest, SameTextSameBytesWithAnyThreads) {
  build_dataset(options_);
  const auto first = files();
  options_.threads = 3;
  build_dataset(options_);  // replaces the first
  EXPECT_EQ(files(), first);
  EXPECT_EQ(first.size(), 4u);  // no other files are left
}

TEST_F(BuildDatasetTest, CompressedFilesGiveTheSameShards) {
  build_dataset(options_);
  auto plain = files();
  Folder packed;
  for (unsigned i = 0; i < texts_.size(); ++i) {
    const std::string name = "f" + std::to_string(i) + ".py", text = corpus_.read(name);
    packed.write(name + (i % 2 ? ".gz" : ".zst"), i % 2 ? test::gzip(text) : test::zstd(text));
  }
  options_.from = {packed.path};
  build_dataset(options_);
  EXPECT_EQ(files(), plain);
  packed.write("f7.py.gz", test::gzip(corpus_.read("f7.py")).substr(0, 100));
  EXPECT_FAILS_WITH(build_dataset(options_), packed / "f7.py.gz", "was cut short");
  EXPECT_EQ(files(), plain) << "the data set from before stays, and no other file";
}

TEST_F(BuildDatasetTest, StandardInputIsReadAsJsonLines) {
  const auto build = [&](const std::string& lines, std::vector<fs::path> from) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    std::thread writer([&] {
      EXPECT_EQ(::write(ends[1], lines.data(), lines.size()), static_cast<ssize_t>(lines.size()));
      ::close(ends[1]);
    });
    options_.from = std::move(from);
    options_.standard_input = ends[0];
    const auto ended = [&] { writer.join(), ::close(ends[0]); };
    try {
      const BuildResult result = build_dataset(options_);
      ended();
      return result;
    } catch (...) {
      ended();
      throw;
    }
  };
  std::string lines;
  for (const std::string& text : texts_) lines += nlohmann::json{{"text", text}}.dump() + "\n";
  const BuildResult result = build(lines + "{\"txt\": 1}\n", {"-"});
  EXPECT_EQ(result.files, 1);
  ASSERT_EQ(result.skipped.size(), 1u);
  EXPECT_EQ(result.skipped[0].where, "standard input:41");
  std::vector<std::string> found = documents("train");
  for (const std::string& text : documents("val")) found.push_back(text);
  EXPECT_EQ(std::set<std::string>(found.begin(), found.end()), texts_);
  EXPECT_EQ(files().size(), 4u) << "the copy is removed";
  // Files come first, wherever "-" stands.
  corpus_.write("first.txt", "first");
  options_.validation = 0;
  const BuildResult both = build(lines, {"-", corpus_ / "first.txt"});
  EXPECT_EQ(both.files, 2);
  EXPECT_EQ(documents("train").front(), "first");
  EXPECT_FAILS_WITH(build("", {"-"}), "no text in 1 file: all are empty");
  options_.from = {"-", "-"};
  EXPECT_TRUE(
      test::has_facts(test::failure_of([&] { build_dataset(options_); }, Exit::usage), "--from - is given twice"));
}

TEST_F(BuildDatasetTest, DuplicatesAreLeftOutAndCounted) {
  build_dataset(options_);
  const auto once = files();
  const auto first = documents("train");
  for (unsigned i = 0; i < 5; ++i) corpus_.write("x" + std::to_string(i) + ".py", corpus_.read("f3.py"));
  const BuildResult kept = build_dataset(options_);
  EXPECT_EQ(kept.duplicates, 0);
  EXPECT_EQ(kept.train.documents + kept.validation.documents, static_cast<std::int64_t>(texts_.size()) + 5);
  options_.deduplicate = true;
  const BuildResult result = build_dataset(options_);
  EXPECT_EQ(result.duplicates, 5);
  EXPECT_EQ(result.train.documents + result.validation.documents, static_cast<std::int64_t>(texts_.size()));
  EXPECT_EQ(documents("train"), first) << "the first of equal documents stays where it was";
  EXPECT_EQ(out_.read("data/train-00000.bin"), once.at("data/train-00000.bin"));
  EXPECT_EQ(nlohmann::json::parse(out_.read("data/dataset.json"))["duplicates"], 5);
  EXPECT_TRUE(
      test::has_facts(as_text(describe(options_.out.string(), "auto", 0)), {"45 files", "5 duplicates left out"}));
}

TEST_F(BuildDatasetTest, OneDocumentIsCutForValidation) {
  options_.from = {corpus_ / "f0.py"};
  const BuildResult result = build_dataset(options_);
  EXPECT_TRUE(result.single_document_cut);
  EXPECT_EQ(documents("train")[0] + documents("val")[0], corpus_.read("f0.py"));
}

TEST_F(BuildDatasetTest, WithoutValidationThereIsNoFileOfIt) {
  options_.validation = 0;
  EXPECT_TRUE(build_dataset(options_).validation.shards.empty());
  EXPECT_EQ(documents("train").size(), texts_.size());
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(BuildDatasetTest, AVocabularyThatTheTextCannotFill) {
  Folder tiny;
  options_.from = {tiny.write("a.txt", "to be or not to be\n"), tiny.write("b.txt", "that is the question\n")};
  options_.vocab_size = 70000;
  const BuildResult result = build_dataset(options_);
  EXPECT_LT(result.vocab_size, 400);
  EXPECT_EQ(documents("train").size() + documents("val").size(), 2u);
}

TEST_F(BuildDatasetTest, BadOptionsAreUsageErrors) {
  const auto with = [&](auto change) {
    DatasetOptions options = options_;
    change(options);
    return test::failure_of([&] { build_dataset(options); }, Exit::usage);
  };
  EXPECT_NE(with([](DatasetOptions& o) { o.vocab_size = 319; }).find("Write 320 to"), std::string::npos);
  EXPECT_NE(with([](DatasetOptions& o) { o.vocab_size = 0; }).find("--vocab-size N"), std::string::npos);
  EXPECT_NE(with([](DatasetOptions& o) { o.tokenizer = o.out; }).find("Leave --vocab-size and --sample-bytes out"),
            std::string::npos);
  EXPECT_NE(with([](DatasetOptions& o) { o.vocab_size = 1 << 21; }).find("out of range"), std::string::npos);
  EXPECT_NE(with([](DatasetOptions& o) { o.validation = 0.6; }).find("--validation 0.6 "), std::string::npos);
  EXPECT_NE(with([](DatasetOptions& o) { o.validation = -0.1; }).find("--validation -0.1 "), std::string::npos);
  EXPECT_NE(with([](DatasetOptions& o) { o.shard_tokens = std::int64_t{1} << 31; }).find("--shard-tokens 2147483648 "),
            std::string::npos);
  EXPECT_NE(with([](DatasetOptions& o) { o.from.clear(); }).find("--from"), std::string::npos);
  EXPECT_NE(with([](DatasetOptions& o) { o.out.clear(); }).find("-o DIR"), std::string::npos);
  EXPECT_TRUE(files().empty());
}

TEST_F(BuildDatasetTest, AnErrorLeavesWhatWasThere) {
  build_dataset(options_);
  const auto before = files();
  // The text changes between the two passes, so the second document set differs.
  options_.progress = [&](const BuildProgress& progress) {
    if (progress.stage == BuildStage::training_tokenizer) corpus_.write("f1.py", "something else\n");
  };
  EXPECT_FAILS_WITH(build_dataset(options_), "text changed");
  EXPECT_EQ(files(), before);
}

TEST_F(BuildDatasetTest, LinesThatAreNoDocumentsAreSkippedAndCounted) {
  const std::int64_t documents = build_dataset(options_).train.documents + build_dataset(options_).validation.documents;
  corpus_.write("z.jsonl", "{\"body\": \"ok\"}\n{\"body\": }\n{\"body\": \"fine\"}\n");
  options_.text_field = "body";
  const BuildResult result = build_dataset(options_);
  EXPECT_EQ(result.train.documents + result.validation.documents, documents + 2);
  EXPECT_EQ(result.skipped_files, 0);
  EXPECT_EQ(result.skipped_lines, 1);
  ASSERT_EQ(result.skipped.size(), 1u);
  EXPECT_EQ(result.skipped[0].where, corpus_ / "z.jsonl:2");
  const auto json = nlohmann::json::parse(out_.read("data/dataset.json"));
  EXPECT_EQ(json["skipped_lines"], 1);
  EXPECT_EQ(json["options"]["text_field"], "body");
  const std::string text = as_text(describe(options_.out.string(), "auto", 0));
  EXPECT_NE(text.find("from 41 files, 0 skipped, 1 line of .jsonl skipped"), std::string::npos) << text;
  Folder bad;
  options_.from = {bad.write("only.jsonl", "{\"text\": \"of another field\"}\n")};
  EXPECT_FAILS_WITH(build_dataset(options_), "no text in 1 file (0 files and 1 line of .jsonl skipped; " +
                                                 bad / "only.jsonl:1: has no 'body' field (but 'text'; --text-field");
}

TEST(SlowLines, SayTheNewestLineAlsoWhileNothingChanges) {
  std::mutex mutex;
  std::vector<std::string> said;
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return said.size();
  };
  SlowLines lines(std::chrono::milliseconds(1), [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    said.push_back(line);
  });
  lines.set("reading");
  while (count() < 3) std::this_thread::yield();
  lines.set("encoding");
  for (const std::size_t before = count(); count() < before + 2;) std::this_thread::yield();
  const std::lock_guard lock(mutex);
  EXPECT_EQ(said.front(), "reading");
  EXPECT_EQ(said.back(), "encoding");
}

TEST(SlowLines, QuickWorkSaysNothing) {
  bool said = false;
  {
    SlowLines(std::chrono::hours(1), [&](const std::string&) { said = true; }).set("reading");
  }
  EXPECT_FALSE(said);
}

TEST_F(BuildDatasetTest, OnlyADataSetIsReplaced) {
  fs::create_directories(options_.out);
  build_dataset(options_);  // an empty folder is accepted
  out_.write("data/thesis.tex", "years of work");
  EXPECT_FAILS_WITH(build_dataset(options_), "has 'thesis.tex'");
  EXPECT_EQ(out_.read("data/thesis.tex"), "years of work");
  options_.out = out_.write("file", "");
  EXPECT_FAILS_WITH(build_dataset(options_), options_.out.string(), "not a folder");
}

TEST_F(BuildDatasetTest, AnotherDataSetIsReplacedOnRequestOnly) {
  build_dataset(options_);
  const auto before = files();
  options_.force = false;
  EXPECT_FAILS_WITH(build_dataset(options_), "--force");
  EXPECT_EQ(files(), before);
}

TEST_F(BuildDatasetTest, WhatAKilledBuildLeftIsRemoved) {
  fs::create_directories(out_.path / "data.partial-2147483646");  // no process has this id
  fs::create_directories(out_.path / "data.partial-1");           // this process is alive
  out_.write("data.partial-2147483646/train-00000.bin", "half");
  build_dataset(options_);
  EXPECT_FALSE(fs::exists(out_.path / "data.partial-2147483646"));
  EXPECT_TRUE(fs::exists(out_.path / "data.partial-1"));
}

TEST_F(BuildDatasetTest, AProcessThatNobodyWaitedForHasEnded) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t ended;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  const fs::path left = out_.path / ("data.partial-" + std::to_string(child));
  fs::create_directories(left);
  build_dataset(options_);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

/// A failed build keeps its shards, and so does a command that fails before it reads a text. Both have this process's
/// id, as builds of containers have equal ids.
TEST_F(BuildDatasetTest, FinishedShardsOfAFailedBuildAreKept) {
  options_.shard_tokens = 1000;
  build_dataset(options_);
  const auto whole = files();
  fs::remove_all(options_.out);
  const fs::path pending = out_.path / ("data.partial-" + std::to_string(::getpid()));
  DatasetOptions failing = options_;
  failing.progress = [&](const BuildProgress&) {
    if (fs::exists(pending / "build.json")) throw Failure(Exit::data, "no space left");
  };
  EXPECT_FAILS_WITH(build_dataset(failing), "no space left");
  EXPECT_TRUE(fs::exists(pending / "train-00000.bin"));
  failing = options_;
  failing.from = {corpus_ / "misspelt"};
  EXPECT_FAILS_WITH(build_dataset(failing), "misspelt");
  EXPECT_TRUE(fs::exists(pending / "build.json"));
  EXPECT_GT(build_dataset(options_).continued_shards, 2);
  EXPECT_EQ(files(), whole);
  EXPECT_FALSE(fs::exists(pending));
}

TEST_F(BuildDatasetTest, AFolderThatAnotherProcessHasLockedStays) {
  const fs::path far = out_.path / "data.partial-2147483646", here = out_.path / "data.partial-1";
  out_.write("data.partial-2147483646/build.json", "{}");  // no process of this machine has this id
  const int lock = ::open((far / "writer.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  out_.write("data.partial-1/writer.lock", "");  // the id is in use, but not by the process that wrote this
  build_dataset(options_);
  EXPECT_TRUE(fs::exists(far / "build.json"));
  EXPECT_FALSE(fs::exists(here));
  const fs::path own = out_.path / ("data.partial-" + std::to_string(::getpid()));
  fs::rename(far, own);
  EXPECT_FAILS_WITH(build_dataset(options_), "another process writes", own.string());
  EXPECT_TRUE(fs::exists(own / "build.json"));
  ::close(lock);
  build_dataset(options_);
  EXPECT_FALSE(fs::exists(own));
}

/// A process that is killed just after it published its folder leaves two files in it.
TEST_F(BuildDatasetTest, ReplacesAFolderWithARecord) {
  build_dataset(options_);
  const auto whole = files();
  out_.write("data/build.json", "{}");
  out_.write("data/writer.lock", "");
  build_dataset(options_);
  EXPECT_EQ(files(), whole);
}

TEST(BuildRecordTest, NamesAndSizesMustFit) {
  Folder folder;
  folder.write("train-00000.bin", std::string(1024 + 4 * 9, 'x'));
  folder.write("train-00001.bin", std::string(1024 + 4 * 9, 'x'));
  folder.write("other.bin", std::string(1024 + 4 * 9, 'x'));
  const auto read = [&](const std::function<void(BuildRecord&)>& change) {
    BuildRecord record;
    record.bytes_per_token = 4;
    for (const char* name : {"train-00000.bin", "train-00001.bin"})
      record.train.shards.shards.push_back({.file = name, .tokens = 9, .documents = 1, .max_id = 3, .xxh3 = "0"});
    change(record);
    write_build_record(folder.path, record);
    return read_build_record(folder.path).has_value();
  };
  const auto last = [](BuildRecord& record) -> ShardSummary& { return record.train.shards.shards.back(); };
  EXPECT_TRUE(read([](BuildRecord&) {}));
  EXPECT_FALSE(read([&](BuildRecord& record) { last(record).tokens = 10; })) << "the file is shorter";
  EXPECT_FALSE(read([&](BuildRecord& record) { last(record).tokens = 0; }));
  EXPECT_FALSE(read([&](BuildRecord& record) { last(record).tokens = std::int64_t{1} << 62; }));
  EXPECT_FALSE(read([&](BuildRecord& record) { last(record).file = "other.bin"; }));
  EXPECT_FALSE(read([&](BuildRecord& record) { last(record).file = "../train-00001.bin"; }));
  EXPECT_FALSE(read([&](BuildRecord& record) { last(record).file = "train-00000.bin"; })) << "the file of another";
  EXPECT_FALSE(read([&](BuildRecord& record) { record.bytes_per_token = 3; }));
  EXPECT_FALSE(read([&](BuildRecord& record) { record.train.documents = -1; }));
  EXPECT_FALSE(read([&](BuildRecord& record) { std::swap(record.train, record.validation); }));
}

TEST_F(BuildDatasetTest, SkippedFilesAreNamedWithTheByte) {
  corpus_.write("x.py", "caf\xe9");
  corpus_.write("y.py", std::string("ab\0c", 4));
  const BuildResult result = build_dataset(options_);
  EXPECT_EQ(result.skipped_files, 2);
  ASSERT_EQ(result.skipped.size(), 2u);
  EXPECT_EQ(result.skipped[0].where, corpus_ / "x.py");
  EXPECT_EQ(result.skipped[0].why, "not UTF-8: byte 3 is 0xe9");
  EXPECT_EQ(result.skipped[1].why, "binary: byte 2 is 0");
}

TEST_F(BuildDatasetTest, FilesOfOtherNamesAreCounted) {
  corpus_.write("x.parquet", "PAR1");
  corpus_.write("README", "read me");
  EXPECT_EQ(build_dataset(options_).passed_over, (ExtensionCounts{{"", 1}, {".parquet", 1}}));
  const auto json = nlohmann::json::parse(out_.read("data/dataset.json"));
  EXPECT_EQ(json["passed_over"], nlohmann::json::parse(R"({"": 1, ".parquet": 1})"));
  EXPECT_EQ(json["skipped_files"], 0);
  const std::string text = as_text(describe(options_.out.string(), "auto", 0));
  EXPECT_NE(text.find("from 40 files, 0 skipped; 2 files excluded by their names (.parquet 1, no extension 1)"),
            std::string::npos)
      << text;
  // With --glob the selection is explicit: other files, such as Python's compiled ones, change no byte.
  options_.globs = {"*.py"};
  EXPECT_TRUE(build_dataset(options_).passed_over.empty());
  EXPECT_EQ(nlohmann::json::parse(as_json(describe(options_.out.string(), "auto", 0)))["source"],
            nlohmann::json::parse(R"({"files": 40, "skipped_files": 0, "skipped_lines": 0, "passed_over": {}})"));
  out_.write("data/dataset.json", "{}");
  EXPECT_FAILS_WITH(describe(options_.out.string(), "auto", 0), "dataset.json'", "`llmc data build`");
}

TEST_F(BuildDatasetTest, BinaryFilesAreCounted) {
  corpus_.write("x.py", "caf\xe9");
  const BuildResult result = build_dataset(options_);
  EXPECT_EQ(result.skipped_files, 1);
  EXPECT_EQ(result.files, static_cast<std::int64_t>(texts_.size()) + 1);
  Folder binary;
  options_.from = {binary.write("only.txt", "\xff")};
  EXPECT_FAILS_WITH(build_dataset(options_),
                    "no text in 1 file (1 file and 0 lines of .jsonl skipped; " + binary / "only.txt");
  binary.write("only.txt", "\xff\xfeh");
  EXPECT_FAILS_WITH(build_dataset(options_), "only.txt: UTF-16: save it as UTF-8");
  binary.write("only.txt", "");
  EXPECT_FAILS_WITH(build_dataset(options_), "no text in 1 file: all are empty");
}

/// A second data set with an existing tokenizer: the same text in another order gives the same tokens.
TEST_F(BuildDatasetTest, ATokenizerThatIsThereIsUsedAsItIs) {
  build_dataset(options_);
  const auto trained = files();
  for (const std::string& given : {out_ / "data", out_ / "data/tokenizer.model"}) {
    DatasetOptions again = options_;
    again.vocab_size = 0;
    again.tokenizer = given;
    again.out = out_.path / "again";
    const BuildResult result = build_dataset(again);
    EXPECT_EQ(result.vocab_size, 500);
    EXPECT_TRUE(result.byte_exact);
    const auto files_now = files();
    for (const char* name : {"tokenizer.model", "train-00000.bin", "val-00000.bin"})
      EXPECT_EQ(files_now.at(std::string("again/") + name), trained.at(std::string("data/") + name)) << name;
    const std::string text = files_now.at("again/dataset.json");
    const auto options = nlohmann::json::parse(text)["options"];
    EXPECT_FALSE(options.contains("vocab_size") || options.contains("sample_bytes")) << options;
    Checksum checksum;
    checksum.update(trained.at("data/tokenizer.model").data(), trained.at("data/tokenizer.model").size());
    EXPECT_EQ(options["tokenizer_xxh3"], checksum.hex());
    EXPECT_EQ(text.find(out_.path.string()), std::string::npos) << "by its content, not by its place";
  }
  // The tokenizer's own folder may be replaced, too.
  options_.vocab_size = 0;
  options_.tokenizer = options_.out;
  build_dataset(options_);
  EXPECT_EQ(files().at("data/tokenizer.model"), trained.at("data/tokenizer.model"));
}

TEST_F(BuildDatasetTest, ATokenizerThatIsNotByteExactIsSaid) {
  options_.vocab_size = 0;
  options_.tokenizer = out_.write("old.model", model_with({{"add_dummy_prefix", "true"}}));
  const BuildResult result = build_dataset(options_);
  EXPECT_FALSE(result.byte_exact);
  EXPECT_EQ(result.changed_documents, 40) << "each begins with a space now";
  const auto json = nlohmann::json::parse(out_.read("data/dataset.json"));
  EXPECT_EQ(json["byte_exact"], false);
  EXPECT_EQ(json["changed_documents"], 40);
  for (const std::string& text : documents("train")) EXPECT_TRUE(texts_.contains(text.substr(1))) << text;
}

TEST_F(BuildDatasetTest, ARecordThatDoesNotFitBeginsFromTheStart) {
  build_dataset(options_);
  const auto whole = files();
  fs::remove_all(options_.out);
  const std::string shard = R"({"file": "train-00000.bin", "tokens": 9, "documents": 1, "max_id": 3, "xxh3": "0"})";
  const std::string side = R"({"documents": 1, "bytes": 1, "tokens": 9, "open": true, "shards": [)" + shard + "]}";
  for (
      const std::string& record :
      {std::string("no JSON"), std::string("{}"),
       R"({"options": "", "text": "", "tokenizer_xxh3": "", "documents": 1, "bytes": 1, "changed_documents": 0, "bytes_per_token": 2, "train": )" +
           side + R"(, "validation": )" + side + "}"}) {
    out_.write("data.partial-2147483646/build.json", record);  // no process has this id
    out_.write("data.partial-2147483646/train-00000.bin", std::string(2000, 'x'));
    EXPECT_EQ(build_dataset(options_).continued_shards, 0) << record;
    EXPECT_EQ(files(), whole) << record;
    EXPECT_FALSE(fs::exists(out_.path / "data.partial-2147483646"));
    fs::remove_all(options_.out);
  }
}

TEST_F(BuildDatasetTest, TokenizersThatCannotBeUsed) {
  options_.vocab_size = 0;
  const auto with = [&](const std::string& tokenizer) {
    options_.tokenizer = tokenizer;
    return test::failure_of([&] { build_dataset(options_); });
  };
  EXPECT_NE(with(out_ / "missing").find("missing'. "), std::string::npos);
  EXPECT_NE(with("gpt2").find("downloads nothing"), std::string::npos) << "a name of the hub";
  EXPECT_NE(with(out_.write("text.model", "no model")).find("text.model': is not"), std::string::npos);
  EXPECT_NE(with(corpus_.path).find("has no tokenizer.model"), std::string::npos);
  out_.write("model/tokenizer.json", "{}");
  EXPECT_NE(with(out_ / "model").find("no model.vocab"), std::string::npos);
  EXPECT_NE(with(out_.write("endless.model", model_with({{"eos_id", "-1"}}))).find("an eos nor a bos"),
            std::string::npos);
  EXPECT_NE(with(out_.write("large.model", std::string((64 << 20) + 1, 'x'))).find("67108865 bytes"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(options_.out));
}

TEST(TimeLeft, FollowsTheSpeedSoFar) {
  EXPECT_EQ(time_left(10, 100, 400), ", " + format_duration(30) + " left");
  EXPECT_EQ(time_left(10, 400, 400), ", " + format_duration(0) + " left");
  for (const auto& [seconds, done, total] : {std::tuple(1.9, 100, 400), {10.0, 0, 400}, {10.0, 100, 0}})
    EXPECT_EQ(time_left(seconds, done, total), "");
}

TEST(ShardWriter, WideTokens) {
  Folder folder;
  ShardWriter writer(folder.path, "train", true, 3);
  writer.append(std::vector<std::int32_t>{1, 100000, 3, 4});
  const auto shards = writer.finish();
  ASSERT_EQ(shards.size(), 2u);
  EXPECT_EQ(shards[1].tokens, 1);
  const TokenShards read(folder / "train-*.bin", "llmc", 100001, "");
  EXPECT_EQ(read.shards()[0].layout, (ShardLayout{ShardFormat::llmc_uint32, TokenType::u32, 1024, 3, -1}));
  std::vector<std::int32_t> tokens(3);
  read.read(0, 0, tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{1, 100000, 3}));
}

TEST(ShardWriter, SummarisesItsShards) {
  Folder folder;
  ShardWriter writer(folder.path, "train", false, 5);
  for (const std::vector<std::int32_t>& document : {std::vector{7, 1}, {300, 1}, {5, 4, 3, 1}, {2, 1}})
    writer.append(document);
  const auto shards = writer.finish();
  ASSERT_EQ(shards.size(), 2u);
  EXPECT_EQ(std::tuple(shards[0].tokens, shards[0].documents, shards[0].max_id), std::tuple(5, 2, 300));
  EXPECT_EQ(std::tuple(shards[1].tokens, shards[1].documents, shards[1].max_id), std::tuple(5, 2, 4));
  EXPECT_EQ(shards[1].xxh3, file_checksum(folder.path / shards[1].file));
}

}  // namespace
}  // namespace llmc::data
