// The run folder: lock, fingerprint, atomic files, logs truncated on resume.
#include "run/run_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "../checkpoint/small_state.h"
#include "../facts.h"
#include "error.h"
#include "run/json_lines.h"
#include "spec/values.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

spec::Spec model(int layers) {
  return spec::read_values("model:\n  num_hidden_layers: " + std::to_string(layers) + "\n", "").spec;
}

std::string failure(const fs::path& path, const spec::Spec& spec) try {
  RunFolder folder(path, spec, {});
  return "no failure";
} catch (const Failure& failure) {
  EXPECT_EQ(failure.code(), Exit::checkpoint);
  return failure.what();
}

/// Starts at step 0 with this spec.
void start(const fs::path& path, const std::string& spec, const std::string& plan = "{}\n") {
  RunFolder folder(path, model(1), {});
  folder.start(spec, plan, "{\"step\":0}", 0);
}

TEST(RunFolder, CreatesAndReopens) {
  test::Folder base;
  const fs::path path = base.path / "runs" / "a";
  EXPECT_FALSE(RunFolder::holds_run(path));
  {
    RunFolder folder(path, model(1), {});
    EXPECT_FALSE(folder.spec_yaml());
    EXPECT_EQ(folder.history(), "");
  }
  EXPECT_FALSE(fs::exists(base.path / "runs")) << "a start that comes to nothing leaves nothing";
  start(path, "name: a\n");
  EXPECT_EQ(read_all(path / "spec.yaml"), "name: a\n");
  EXPECT_EQ(read_all(path / "plan.json"), "{}\n");
  const auto before = fs::last_write_time(path / "spec.yaml");
  start(path, "name: a\n", "{\"x\": 1}\n");
  EXPECT_EQ(fs::last_write_time(path / "spec.yaml"), before) << "equal files are not written again";
  EXPECT_EQ(read_all(path / "plan.json"), "{\"x\": 1}\n");
  EXPECT_EQ(read_all(path / "history.jsonl"), "{\"step\":0}\n{\"step\":0}\n");
  RunFolder folder(path, model(1), {});
  EXPECT_EQ(folder.spec_yaml(), "name: a\n");
  std::ofstream(path / "history.jsonl", std::ios::app) << "{\"step\":5}";
  EXPECT_EQ(folder.history(), "{\"step\":0}\n{\"step\":0}\n") << "a line that was not finished";
}

TEST(RunFolder, RefusesAnotherModel) {
  test::Folder base;
  const std::string spec = "model:\n  num_hidden_layers: 1\n";
  start(base.path, spec);
  const std::string message = failure(base.path, model(2));
  EXPECT_NE(message.find("another model: model.num_hidden_layers 1 -> 2."), std::string::npos) << message;
  EXPECT_EQ(read_all(base.path / "spec.yaml"), spec);
  write_all(base.path / "spec.yaml", "nonsense");
  EXPECT_NE(failure(base.path, model(2)).find("' -> '"), std::string::npos) << "the fingerprints";
}

TEST(RunFolder, DoesNotTakeOverAFolderWithASpec) {
  test::Folder base;
  write_all(base.path / "spec.yaml", "mine");
  EXPECT_TRUE(test::has_facts(failure(base.path, model(1)), {base.path.string(), "'spec.yaml'", "--run"}));
  EXPECT_EQ(read_all(base.path / "spec.yaml"), "mine");
}

TEST(RunFolder, AStartThatComesToNothingLeavesWhatWasThere) {
  test::Folder base;
  std::ofstream(base.path / "job.log") << "text";
  EXPECT_EQ(failure(base.path, model(1)), "no failure");
  EXPECT_FALSE(fs::exists(base.path / "state"));
  EXPECT_EQ(read_all(base.path / "job.log"), "text");
  start(base.path, "name: a\n");
  EXPECT_EQ(failure(base.path, model(1)), "no failure");
  EXPECT_TRUE(RunFolder::holds_run(base.path)) << "of a run that was started before";
}

TEST(RunFolder, AStartThatComesToNothingLeavesAFolderThatCanBeUsed) {
  test::Folder base;
  for (const char* name : {"checkpoints", "checkpoints/.tmp-probe"}) {
    {
      RunFolder folder(base.path / "run", model(1), {});
      fs::create_directories(base.path / "run" / name);
    }
    EXPECT_EQ(failure(base.path / "run", model(1)), "no failure") << name;
  }
  EXPECT_TRUE(RunFolder::holds_run(base.path / "run"));
}

TEST(RunFolder, OneTrainerAtATime) {
  test::Folder base;
  {
    RunFolder first(base.path, model(1), {});
    EXPECT_NE(failure(base.path, model(1)).find("another trainer"), std::string::npos);
  }
  EXPECT_EQ(failure(base.path, model(1)), "no failure");
}

TEST(RunFolder, ALockThatWasRemovedWhileItWasWaitedForIsTakenAnew) {
  test::Folder base;
  const fs::path lock = base.path / "state" / "lock";
  fs::create_directories(lock.parent_path());
  auto first = std::make_unique<FolderLock>(base.path, "", Log());
  std::optional<FolderLock> second;
  std::thread waits([&] { second.emplace(base.path, "", Log()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  fs::remove_all(lock.parent_path());  // as a start that failed does
  first.reset();
  waits.join();
  EXPECT_TRUE(FolderLock::is_held(base.path));
}

TEST(RunFolder, WhoLooksRefusesNobody) {
  test::Folder base;
  EXPECT_FALSE(FolderLock::is_held(base.path));
  {
    RunFolder folder(base.path, model(1), {});
    folder.start("", "", "{}", 0);
    EXPECT_TRUE(FolderLock::is_held(base.path));
  }
  EXPECT_FALSE(FolderLock::is_held(base.path));
  const int looks = ::open((base.path / "state/lock").c_str(), O_RDONLY);
  ASSERT_EQ(::flock(looks, LOCK_SH), 0);
  EXPECT_FALSE(FolderLock::is_held(base.path)) << "two may look";
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::close(looks);
  });
  EXPECT_EQ(failure(base.path, model(1)), "no failure");
  ends.join();
}

/// A pipe has no end and nobody who writes: whoever opens it to read it waits for ever.
TEST(RunFolder, APipeInPlaceOfTheLockIsNoLock) {
  test::Folder base;
  fs::create_directories(base.path / "state");
  ASSERT_EQ(::mkfifo((base.path / "state/lock").c_str(), 0600), 0);
  EXPECT_EXIT(
      {
        ::alarm(10);
        std::_Exit(FolderLock::is_held(base.path));
      },
      testing::ExitedWithCode(0), "");
  EXPECT_NE(failure(base.path, model(1)).find("state/lock' is not a regular file"), std::string::npos);
}

/// On some network file systems a file's inode number changes after it was opened.
TEST(RunFolder, AnotherLockFileIsNoOtherRun) {
  test::Folder base;
  RunFolder folder(base.path, model(1), {});
  folder.start("name: a\n", "{}\n", "{\"step\":0,\"time\":\"now\"}", 0);
  fs::rename(base.path / "state/lock", base.path / "state/old");  // keeps its inode number
  std::ofstream(base.path / "state/lock");
  EXPECT_FALSE(folder.renew());
  std::ofstream(base.path / "history.jsonl", std::ios::app) << "{\"step\":0,\"time\":\"later\"}\n";
  EXPECT_THROW(folder.renew(), Failure);
}

TEST(RunFolder, RemovesWhatAKilledSaveLeft) {
  test::Folder base;
  start(base.path, "");
  fs::create_directories(base.path / "checkpoints" / ".tmp-step-00000001");
  {
    RunFolder folder(base.path, model(1), {});
  }
  EXPECT_TRUE(hidden_entries(base.path / "checkpoints").empty());
}

TEST(RunFolder, WhatABorderCouldNotWriteComesWithTheNextSave) {
  test::Folder base;
  RunFolder folder(base.path, model(1), {});
  folder.start("name: a\n", "{}\n", "{\"step\":0}", 0);
  folder.append_metrics("{\"step\":6}");
  const auto enter_without = [&](const char* file, const std::string& spec, const std::string& line) {
    fs::rename(base.path / file, base.path / "away");
    fs::create_directory(base.path / file);
    EXPECT_THROW(folder.enter_phase(spec, "{}\n", line), Failure) << file;
    EXPECT_THROW(folder.renew(), Failure) << file;
    fs::remove(base.path / file);
    fs::rename(base.path / "away", base.path / file);
  };
  enter_without("history.jsonl", "name: b\n", "{\"step\":5}");
  enter_without("spec.yaml", "name: c\n", "{\"step\":7}");
  EXPECT_FALSE(folder.renew());
  EXPECT_EQ(folder.history(), "{\"step\":0}\n{\"step\":5}\n{\"step\":7}\n");
  EXPECT_EQ(folder.spec_yaml(), "name: c\n");
  EXPECT_EQ(folder.last_metrics(), "{\"step\":6}") << "a border cuts nothing";
  fs::remove_all(base.path);
  folder.enter_phase("name: d\n", "{}\n", "{\"step\":9}");
  EXPECT_FALSE(fs::exists(base.path));
  EXPECT_TRUE(folder.renew());
  EXPECT_EQ(folder.history(), "{\"step\":9}\n");
}

TEST(RunFolder, LinesAreAppendedAndCutBack) {
  test::Folder base;
  RunFolder folder(base.path, model(1), {});
  folder.start("", "", "{}", 0);
  for (int step = 1; step <= 4; ++step) folder.append_metrics("{\"step\":" + std::to_string(step) + "}");
  folder.append_sample(R"({"step":2,"text":"a \"step\":9 \n"})");
  folder.append_sample(R"({"step":3,"text":"b"})");
  folder.start("", "", "{}", 2);
  EXPECT_EQ(read_all(base.path / "metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(read_all(base.path / "samples.jsonl"), "{\"step\":2,\"text\":\"a \\\"step\\\":9 \\n\"}\n");
  folder.append_metrics("{\"step\":3}");
  EXPECT_EQ(read_all(base.path / "metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  EXPECT_TRUE(hidden_entries(base.path).empty());
  folder.start("", "", "{}", 0);
  EXPECT_EQ(read_all(base.path / "metrics.jsonl"), "");
}

TEST(JsonLines, ATornLastLineIsCutOnOpening) {
  test::Folder base;
  const fs::path path = base.path / "m.jsonl";
  write_all(path, "{\"step\":1}\n{\"step\":2}\n{\"ste");
  {
    JsonLines(path).append("{\"step\":3}");
  }
  EXPECT_EQ(read_all(path), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  write_all(path, std::string(10000, 'x'));  // a torn line longer than one block, and no complete one
  {
    JsonLines(path).append("{\"step\":3}");
  }
  EXPECT_EQ(read_all(path), "{\"step\":3}\n");
}

TEST(JsonLines, TheLastLineIsAWholeOne) {
  test::Folder base;
  const fs::path path = base.path / "m.jsonl";
  const std::string large = "{\"step\":2," + std::string(9000, ' ') + "}";
  for (const auto& [text, last] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {"{\"ste", ""},
                                                        {"{\"step\":1}\n", "{\"step\":1}"},
                                                        {"{\"step\":1}\n" + large + "\n{\"st", large}}) {
    write_all(path, text);
    EXPECT_EQ(last_line(path), last);
  }
}

TEST(JsonLines, TruncationDropsTornAndForeignLines) {
  test::Folder base;
  const fs::path path = base.path / "m.jsonl";
  write_all(path, "{\"step\":1}\nnot json\n{\"loss\":1}\n[1]\n{\"step\":2}\n{\"step\":1}");
  std::string log;
  truncate_lines_after(path, 5, [&](const std::string& line) { log += line + "\n"; });
  EXPECT_EQ(read_all(path), "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_TRUE(test::has_facts(log, {"line 2 ", "and 2 more", "set-aside-1/m.jsonl"})) << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  truncate_lines_after(base.path / "none", 5, {});
}

TEST(JsonLines, AFileWithDroppedLinesIsSetAside) {
  test::Folder base;
  const fs::path path = base.path / "m.jsonl";
  const std::string whole = "{\"step\":1}\n{\"step\":2}\n{\"st";
  write_all(path, whole);
  truncate_lines_after(path, 5, {});
  EXPECT_FALSE(fs::exists(base.path / "set-aside-1")) << "a torn last line is no damage";
  const std::string longest = "{\"step\":3,\"text\":\"" + std::string(kMostLineBytes, 'x') + "\"}\n";
  for (const char* kept : {"set-aside-1/m.jsonl", "set-aside-2/m.jsonl"}) {
    write_all(path, "{\"step\":1}\n" + longest + "{\"step\":4}\n");
    truncate_lines_after(path, 5, {});
    EXPECT_EQ(read_all(path), "{\"step\":1}\n{\"step\":4}\n");
    EXPECT_EQ(read_all(base.path / kept), "{\"step\":1}\n" + longest + "{\"step\":4}\n");
  }
}

TEST(JsonLines, ALinkIsNotFollowed) {
  test::Folder base;
  for (const char* target : {"there", "new"}) {
    write_all(base.path / "there", "mine");
    fs::create_symlink(target, base.path / "link");
    EXPECT_THROW(JsonLines(base.path / "link"), Failure);
    fs::remove(base.path / "link");
  }
  EXPECT_EQ(read_all(base.path / "there"), "mine");
  EXPECT_FALSE(fs::exists(base.path / "new"));
}

TEST(JsonLines, AFullDiskLeavesWholeLines) {
  test::Folder base;
  const fs::path path = base.path / "m.jsonl";
  write_all(path, "{\"step\":1}\n");
  const rlimit most{15, 15};  // bytes of a file: room for a part of the next line
  EXPECT_EXIT(
      {
        std::signal(SIGXFSZ, SIG_IGN);
        ::setrlimit(RLIMIT_FSIZE, &most);
        try {
          JsonLines(path).append("{\"step\":2}");
        } catch (const Failure& failure) {
          std::_Exit(static_cast<int>(failure.code()));
        }
        std::_Exit(0);
      },
      testing::ExitedWithCode(6), "");
  EXPECT_EQ(read_all(path), "{\"step\":1}\n");
}

}  // namespace
}  // namespace llmc
