// Builds of data sets that were killed, and those that continue them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "build_dataset.h"
#include "compiler/tools/dataset/build_record.h"
#include "files.h"

namespace llmc::data {
namespace {

using test::Folder;
namespace fs = std::filesystem;

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

/// Files next to a tokenizer.json name its separator, and may change between two calls.
TEST_F(BuildDatasetTest, AnotherSeparatorBeginsFromTheStart) {
  options_.tokenizer_json = true;
  build_dataset(options_);
  Folder model;
  fs::copy_file(out_.path / "data/tokenizer.json", model.path / "tokenizer.json");
  fs::remove_all(options_.out);
  DatasetOptions given = options_;
  given.tokenizer_json = false;
  given.vocab_size = 0;
  given.tokenizer = model / "tokenizer.json";
  given.shard_tokens = 1000;
  const auto named = [&](const char* end) {
    model.write("tokenizer_config.json", std::string(R"({"eos_token": ")") + end + "\"}");
  };
  named("b");
  build_dataset(given);
  const auto whole = files();
  fs::remove_all(options_.out);
  named("a");
  DatasetOptions failing = given;
  failing.progress = [&](const BuildProgress&) {
    if (fs::exists(out_.path / ("data.partial-" + std::to_string(::getpid())) / kBuildRecord))
      throw Failure(Exit::data, "no space left");
  };
  EXPECT_FAILS_WITH(build_dataset(failing), "no space left");
  named("b");
  EXPECT_EQ(build_dataset(given).continued_shards, 0);
  EXPECT_EQ(files(), whole);
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

}  // namespace
}  // namespace llmc::data
