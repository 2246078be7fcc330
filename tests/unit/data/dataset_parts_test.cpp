// Parts of a build of a data set: progress, time left, shards.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <future>
#include <mutex>
#include <thread>

#include "compiler/tools/dataset/pending_folder.h"
#include "compiler/tools/dataset/shard_writer.h"
#include "compiler/tools/dataset/slow_lines.h"
#include "compiler/tools/dataset/time_left.h"
#include "data/shards.h"
#include "files.h"
#include "text/console.h"

namespace llmc::data {
namespace {

using test::Folder;
namespace fs = std::filesystem;

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

/// Signals are for the thread of a PendingFolder, which is created later.
TEST(SlowLines, TheThreadReceivesNoSignals) {
  std::promise<bool> blocked;
  {
    std::once_flag once;
    SlowLines lines(std::chrono::milliseconds(1), [&](const std::string&) {
      sigset_t mask;
      pthread_sigmask(SIG_SETMASK, nullptr, &mask);
      std::call_once(once, [&] { blocked.set_value(sigismember(&mask, SIGTERM) == 1); });
    });
    lines.set("reading");
    EXPECT_TRUE(blocked.get_future().get());
  }
}

TEST(PendingFolder, WaitsForNoSignalThatIsIgnored) {
  Folder folder;
  const auto former = std::signal(SIGHUP, SIG_IGN);
  {
    const PendingFolder pending(folder.path / "out", kDataWriter, [](const fs::path&) {});
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    EXPECT_EQ(sigismember(&mask, SIGHUP), 0);
    EXPECT_EQ(sigismember(&mask, SIGTERM), 1);
  }
  std::signal(SIGHUP, former);
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
