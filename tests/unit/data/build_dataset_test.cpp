#include "build_dataset.h"

#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "compiler/tools/dataset/builder.h"
#include "compiler/tools/dataset/info.h"
#include "compiler/tools/dataset/read_tokenizer.h"
#include "compressed.h"
#include "data/shards.h"
#include "data/tokenizer.h"
#include "files.h"
#include "files/durable_file.h"
#include "source_text.h"

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
  EXPECT_NE(with([](DatasetOptions& o) { o.tokenizer = o.out; }).find("Leave --vocab-size, --sample-bytes and --train"),
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

TEST_F(BuildDatasetTest, OfTwoTokenizersInAFolderTheOneThatLlmcReads) {
  options_.tokenizer_json = true;
  build_dataset(options_);
  const Folder model;
  fs::copy_file(out_ / "data/tokenizer.json", model / "tokenizer.json");
  model.write("tokenizer.model", "of another kind");
  EXPECT_EQ(tokenizer_file(model.path), model / "tokenizer.json");
  EXPECT_EQ(tokenizer_file(out_ / "data"), out_ / "data/tokenizer.model");
  DatasetOptions again = options_;
  again.tokenizer_json = false;
  again.vocab_size = 0;
  again.tokenizer = model.path;
  again.out = out_.path / "again";
  EXPECT_EQ(build_dataset(again).tokenizer_file, "tokenizer.json");
  model.write("tokenizer.json", "{}");
  EXPECT_FAILS_WITH(build_dataset(again), (model / "tokenizer.model") + "': ", "sentencepiece model");
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

}  // namespace
}  // namespace llmc::data
