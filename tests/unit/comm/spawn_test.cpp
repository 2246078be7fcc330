// Ranks spawned by a process: their output, signals and exit codes.
#include "comm/spawn.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "../facts.h"
#include "../folder.h"
#include "comm/rank_output.h"
#include "comm/session_folder.h"
#include "files/temporary_folder.h"
#include "processes.h"

namespace llmc::ranks {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

/// Sets rank and size in a shell script, for any launcher.
constexpr const char* kRank = "r=${RANK:-$OMPI_COMM_WORLD_RANK} n=${WORLD_SIZE:-$OMPI_COMM_WORLD_SIZE}; ";

using Variables = std::vector<std::pair<const char*, const char*>>;

/// Spawns ranks of a shell script from a separate process; captures stdout and stderr together.
Process spawn(Starter starter, int ranks, const std::string& script, const Variables& surroundings = {}) {
  return Process([=] {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    for (const char* name : {"RANK", "WORLD_SIZE", "OMP_NUM_THREADS"}) unsetenv(name);
    for (const auto& [name, value] : surroundings) setenv(name, value, 1);
    return spawn_ranks({"/bin/sh", "-c", kRank + script}, ranks, starter);
  });
}

class Spawn : public testing::TestWithParam<Starter> {
 protected:
  void SetUp() override {
    if (GetParam() == Starter::mpirun && std::system("mpirun --version > /dev/null 2>&1") != 0)
      FAIL() << "there is no mpirun: ./setup.sh installs it";
  }

  End run(int ranks, const std::string& script) const { return spawn(GetParam(), ranks, script).wait(); }

  /// Waits until all ranks have reported readiness in `folder_`.
  void wait_for(int ranks) const {
    for (int rank = 0; rank < ranks; ++rank)
      while (!fs::exists(folder_ / ("ready" + std::to_string(rank)))) std::this_thread::sleep_for(2ms);
  }

  /// Script of each of two ranks that waits for both, by files `name`0 and `name`1, until their output is read.
  static std::string barrier(const std::string& name) {
    return ": > " + name + "$r; while ! [ -e " + name + "0 -a -e " + name + "1 ]; do sleep 0.02; done; sleep 0.2";
  }

  const test::Folder files_;
  const fs::path folder_ = files_.path;
};
INSTANTIATE_TEST_SUITE_P(By, Spawn, testing::Values(Starter::self, Starter::mpirun),
                         [](const auto& info) { return info.param == Starter::self ? "Self" : "Mpirun"; });

/// Also as the only rank of another launcher, in an allocation of two other machines, and with a list of hosts.
TEST_P(Spawn, LinesComeOutWithTheirRank) {
  const std::string hosts = files_.write("hosts", "node3\n");
  const Variables surroundings = {{"RANK", "0"},
                                  {"WORLD_SIZE", "1"},
                                  {"MASTER_ADDR", "192.0.2.1"},
                                  {"MASTER_PORT", "29500"},
                                  {"SLURM_JOB_ID", "7"},
                                  {"SLURM_JOBID", "7"},
                                  {"SLURM_NODELIST", "node1,node2"},
                                  {"SLURM_JOB_NODELIST", "node1,node2"},
                                  {"SLURM_NNODES", "2"},
                                  {"SLURM_JOB_NUM_NODES", "2"},
                                  {"SLURM_TASKS_PER_NODE", "1(x2)"},
                                  {"OMPI_MCA_orte_default_hostfile", hosts.c_str()}};
  const End end = spawn(GetParam(), 3,
                        std::string("echo one; echo two $r of $n >&2; echo") +
                            (GetParam() == Starter::self ? "; printf 'no end'" : "; echo at ${MASTER_ADDR:-mpi}"),
                        surroundings)
                      .wait();
  EXPECT_EQ(end.code, 0) << end.err;
  for (const char* rank : {"0", "1", "2"}) {
    const std::string tag = std::string("[rank ") + rank + "] ";
    EXPECT_THAT(end.err, HasSubstr(tag + "one\n"));
    EXPECT_THAT(end.err, HasSubstr(tag + "two " + rank + " of 3\n"));
    EXPECT_THAT(end.err, HasSubstr(tag + "\n"));
    EXPECT_THAT(end.err, HasSubstr(tag + (GetParam() == Starter::self ? "no end\n" : "at mpi\n")));
  }
}

TEST_P(Spawn, TheFirstCodeCountsAndItsLinesAreRepeated) {
  const End end = run(3,
                      "if [ $r = 1 ]; then echo cause $r >&2; exit 7; else echo \"error: rank 1 (host h) is lost: "
                      "gone\" >&2; sleep 0.5; exit 170; fi");
  EXPECT_EQ(end.code, 7) << end.err;
  EXPECT_TRUE(test::has_facts(end.err, {"\nrank 1 of 3 ", "exit code 7", ":\n  cause 1\n"}));
  EXPECT_THAT(end.err, Not(HasSubstr("mpirun")));
}

TEST_P(Spawn, WhatCannotBeSaidChangesNoCode) {
  if (GetParam() == Starter::mpirun) return;  // the same words, and mpirun takes two seconds to end
  for (const int code : {7, 75}) {
    Process process([code] {
      dup2(open("/dev/full", O_WRONLY), STDERR_FILENO);
      for (const char* name : {"RANK", "WORLD_SIZE", "OMP_NUM_THREADS"}) unsetenv(name);
      return spawn_ranks({"/bin/sh", "-c", "echo cause >&2; exit " + std::to_string(code)}, 2, Starter::self);
    });
    EXPECT_EQ(process.wait().code, code);
  }
}

TEST_P(Spawn, OneWhoWaitedIsNotTheCause) {
  if (GetParam() == Starter::mpirun) return;  // mpirun ends the others by itself
  const End end = run(2, "if [ $r = 1 ]; then sleep 0.2; echo cause >&2; exit 7; else exit 170; fi");
  EXPECT_EQ(end.code, 7) << end.err;
  EXPECT_TRUE(test::has_facts(end.err, {"\nrank 1 of 2 ", "exit code 7", ":\n  cause\n"}));
  EXPECT_EQ(run(2, "exit 170").code, 170);
}

TEST_P(Spawn, ASignalsEndIsItsCode) {
  const End end = run(2,
                      "if [ $r = 0 ]; then echo here; kill -9 $$; else echo \"error: rank 0 (host h) is lost: gone\"; "
                      "sleep 0.5; exit 170; fi");
  EXPECT_EQ(end.code, 137) << end.err;
  EXPECT_TRUE(test::has_facts(end.err, {"\nrank 0 of 2 ", "exit code 137", ":\n  here\n"}));
}

TEST_P(Spawn, SignalsArePassedOn) {
  std::vector<std::pair<int, std::string>> signals = {{SIGTERM, "TERM"}};  // mpirun needs two seconds to end
  if (GetParam() == Starter::self)
    signals.insert(signals.end(), {{SIGINT, "INT"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}});
  for (const auto& [signal, name] : signals) {
    // Exit code 75 of the first rank must not end the others, which are still saving. Open MPI 5 does end them, so
    // that ranks under it exit once all have saved, as those of a run do.
    const std::string saved = (folder_ / ("saved" + name)).string();
    const std::string all = GetParam() == Starter::self ? "" : "; " + barrier(saved);
    Process process = spawn(GetParam(), 2,
                            "trap 'echo got " + name + "; sleep 0.$((r * 3)); echo saved" + all + "; exit 75' " + name +
                                "; : > " + (folder_ / "ready").string() + "$r; while :; do sleep 0.02; done");
    wait_for(2);
    process.signal(signal);
    const End end = process.wait();
    EXPECT_EQ(end.code, 75) << name << end.err;
    for (const char* rank : {"0", "1"}) {
      EXPECT_THAT(end.err, HasSubstr(std::string("[rank ") + rank + "] got " + name));
      EXPECT_THAT(end.err, HasSubstr(std::string("[rank ") + rank + "] saved"));
      fs::remove(folder_ / (std::string("ready") + rank));
    }
  }
}

TEST_P(Spawn, ASignalToEveryProcessIsOneRequest) {
  // Signals the launcher, mpirun and the ranks, three times. A rank receives its own signal, and once the one that the
  // launcher passes on.
  const std::string script = "n=0; trap 'n=$((n + 1))' TERM; : > " + (folder_ / "ready").string() +
                             "$r; while [ $n = 0 ]; do sleep 0.02; done; for i in $(seq 40); do sleep 0.02; done; "
                             "echo heard $n; " +
                             barrier((folder_ / "heard").string()) + "; [ $n -le 2 ] && exit 75; exit 143";
  Process process = spawn(GetParam(), 2, script);
  wait_for(2);
  const std::vector<pid_t> all = process.tree();
  const std::size_t ranks = GetParam() == Starter::self ? 1 : 2;
  ASSERT_GE(all.size(), ranks + 2);
  for (std::size_t i = ranks; i < ranks + 2; ++i) ::kill(all[i], SIGTERM);
  for (int times = 0; times < 3; ++times) {
    for (std::size_t i = 0; i < ranks; ++i) ::kill(all[i], SIGTERM);
    std::this_thread::sleep_for(60ms);
  }
  const End end = process.wait();
  EXPECT_EQ(end.code, 75) << end.err;
  for (const char* rank : {"0", "1"})
    EXPECT_THAT(end.err, ContainsRegex("\\[rank " + std::string(rank) + "\\] heard [12]"));
}

TEST_P(Spawn, ARequestToSaveIsNoEndOfARankThatStarts) {
  Process process = spawn(
      GetParam(), 2, "trap 'exit 75' TERM; : > " + (folder_ / "ready").string() + "$r; while :; do sleep 0.02; done");
  wait_for(2);
  std::vector<pid_t> launchers = process.tree();
  launchers.resize(GetParam() == Starter::self ? 1 : 2);  // with mpirun
  for (const pid_t pid : launchers) ::kill(pid, SIGUSR1);
  process.signal(SIGTERM);
  const End end = process.wait();
  EXPECT_EQ(end.code, 75) << end.err;
}

TEST_P(Spawn, ThreadsAreSharedOutByMpirun) {
  const End end = run(2, "echo threads ${OMP_NUM_THREADS:-unset}");
  const unsigned cpus = std::thread::hardware_concurrency();
  const std::string threads = GetParam() == Starter::self ? "unset" : std::to_string(std::max(1u, cpus / 2));
  EXPECT_THAT(end.err, HasSubstr("[rank 1] threads " + threads + "\n"));
  if (GetParam() == Starter::self) return;
  const End empty = spawn(GetParam(), 2, "echo threads $OMP_NUM_THREADS", {{"OMP_NUM_THREADS", ""}}).wait();
  EXPECT_THAT(empty.err, HasSubstr("[rank 1] threads " + threads + "\n")) << "an empty variable is not set";
}

TEST_P(Spawn, AProgramThatIsNotThereIsSaid) {
  const End end = Process([this] { return spawn_ranks({"/no/such/program"}, 2, GetParam()); }).wait();
  EXPECT_NE(end.code, 0);
  EXPECT_THAT(end.err, HasSubstr("/no/such/program"));
}

/// Open MPI itself would abort, or wait for a rank that never starts.
TEST(SpawnOutput, AFullFolderOfMpirunIsSaidBeforeItStarts) {
  EXPECT_NO_THROW(check_session_folder("/no/such", 0));
  const auto text = [](const fs::path& folder, std::uint64_t bytes) {
    try {
      check_session_folder(folder, bytes);
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), Exit::does_not_fit);
      return std::string(failure.what());
    }
    return std::string();
  };
  EXPECT_TRUE(test::has_facts(text("/", std::uint64_t{1} << 60), {"mpirun", "'/'", "disk has "}));
  EXPECT_TRUE(test::has_facts(text("/dev/null/tmp", 1), {"mpirun", "'/dev/null/tmp'", "TMPDIR"}));
  const End end = Process([] {
                    setenv("TMPDIR", "/dev/null/tmp", 1);
                    return spawn_ranks({"/bin/true"}, 2, Starter::mpirun);
                  }).wait();
  EXPECT_EQ(end.code, static_cast<int>(Exit::does_not_fit));
  EXPECT_TRUE(test::has_facts(end.err, {"mpirun", "'/dev/null/tmp", "TMPDIR"}));
}

/// In place of mpirun: a script that makes the file `ready_`, and then does not end.
class EndlessMpirun : public testing::Test {
 protected:
  Process start(const std::string& before, const MpirunLimits& limits = {.alone = 100ms}) {
    const fs::path mpirun = folder_.path() / "mpirun";
    std::ofstream(mpirun) << "#!/bin/sh\n" << before << "\n: > '" << ready_.string() << "'\nexec sleep 600\n";
    fs::permissions(mpirun, fs::perms::owner_all);
    return Process([&] {
      setenv("PATH", (folder_.path().string() + ":" + std::getenv("PATH")).c_str(), 1);
      return spawn_ranks({"/bin/true"}, 2, Starter::mpirun, limits);
    });
  }

  const TemporaryFolder folder_{"mpirun"};
  const fs::path ready_ = folder_.path() / "ready";
};

/// Open MPI 4 may wait for ever for a rank that a signal ended before it was the rank's program.
TEST_F(EndlessMpirun, WithoutRanksEndsByARequest) {
  Process process = start("trap '' TERM USR2");
  while (!fs::exists(ready_)) std::this_thread::sleep_for(2ms);
  process.signal(SIGTERM);
  const End end = process.wait();
  EXPECT_EQ(end.code, 128 + SIGTERM) << end.err;
}

/// Open MPI 4 may wait for ever where the system refuses it a rank's pipes.
TEST_F(EndlessMpirun, WithoutRanksIsEnded) {
  const End end = start("echo 'no more pipes' >&2", {.start = 100ms, .alone = 1h}).wait();
  EXPECT_EQ(end.code, static_cast<int>(Exit::toolchain)) << end.err;
  EXPECT_TRUE(test::has_facts(end.err, {"no more pipes", "mpirun started no rank within 0.1 s"}));
}

/// Whatever the system lists as its children.
TEST_F(EndlessMpirun, IsLeftAloneWhenARankHasPrinted) {
  const Process process = start("echo '[1,0]<stderr>:text' >&2", {.start = 100ms, .alone = 1h});
  while (!fs::exists(ready_)) std::this_thread::sleep_for(2ms);
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(process.tree().size(), 2u) << "the launcher and mpirun";
}

TEST_F(EndlessMpirun, EndsWhenItsRanksAreGone) { EXPECT_EQ(start("sleep 0.5 & wait").wait().code, 128 + SIGKILL); }

/// The shell becomes sleep, which reaps no rank.
TEST_F(EndlessMpirun, EndsWithTheCodeOfARankThatItDidNotReap) {
  EXPECT_EQ(start("sh -c 'sleep 0.5; exit 7' &").wait().code, 7);
}

TEST_F(EndlessMpirun, IsLeftAloneWhileARankRuns) {
  Process process = start("sh -c 'sleep 0.1; kill -TERM $$' &\nsleep 5 &");
  while (!fs::exists(ready_)) std::this_thread::sleep_for(2ms);
  std::this_thread::sleep_for(500ms);
  EXPECT_GE(process.tree().size(), 3u) << "the launcher, mpirun, and the rank that runs";
}

TEST(SpawnOutput, AnEmptyProgramIsNoScriptOfAShell) {
  const TemporaryFolder folder("spawn");
  const fs::path mpirun = folder.path() / "mpirun";
  std::ofstream(mpirun).flush();
  fs::permissions(mpirun, fs::perms::owner_all);
  const End alone = Process([&] { return spawn_ranks({mpirun.string()}, 2, Starter::self); }).wait();
  EXPECT_NE(alone.code, 0);
  EXPECT_THAT(alone.err, HasSubstr("Exec format error"));
  const End under = Process([&] {
                      setenv("PATH", folder.path().c_str(), 1);
                      return spawn_ranks({"/bin/true"}, 2, Starter::mpirun);
                    }).wait();
  EXPECT_NE(under.code, 0);
  EXPECT_THAT(under.err, HasSubstr("cannot run mpirun: Exec format error"));
}

/// mpirun ends with 1 then, which of a rank means a wrong spec.
TEST(SpawnOutput, AnMpirunThatStartsNothingIsOfTheToolchain) {
  const auto end = [](const std::string& script) {
    const TemporaryFolder folder("spawn");
    const fs::path mpirun = folder.path() / "mpirun";
    std::ofstream(mpirun) << "#!/bin/sh\n" << script << "\nexit 1\n";
    fs::permissions(mpirun, fs::perms::owner_all);
    return Process([&] {
             setenv("PATH", folder.path().c_str(), 1);
             return spawn_ranks({"/bin/true"}, 2, Starter::mpirun);
           })
        .wait();
  };
  const End nothing = end("echo 'no recursive calls' >&2");
  EXPECT_EQ(nothing.code, static_cast<int>(Exit::toolchain));
  EXPECT_THAT(nothing.err, HasSubstr("no recursive calls"));
  EXPECT_EQ(end("echo '[1,0]<stderr>:error: a wrong spec' >&2").code, static_cast<int>(Exit::spec));
}

TEST(SpawnOutput, TagsOfBothVersionsOfOpenMpi) {
  TagReader tags;
  const auto text = [&](const char* line) {
    const auto tagged = tags.read(line);
    return tagged ? std::to_string(tagged->rank) + "|" + std::string(tagged->text) : "none";
  };
  EXPECT_EQ(text("[1,0]<stdout>: text"), "0|text");
  EXPECT_EQ(text("[1,3]<stdout>: "), "3|");
  EXPECT_EQ(text("[1,12]<stderr>:  text"), "12| text");
  EXPECT_EQ(text("[prterun-a-71@1,3]<stdout>: text"), "3|text");
  EXPECT_EQ(text("[1,0]<stdout>:text"), "0|text");  // version 4
  EXPECT_EQ(text("[1,12]<stderr>: text"), "12| text");
  EXPECT_EQ(text("[1,3]<stdout>:"), "3|");
  for (const char* line :
       {"", "text", "[1,]<stdout>:x", "[1,2]x", "[1,2]<stdout>x", "[a]<stdout>:x", "],[", "[1,-2]<stdout>:x"})
    EXPECT_EQ(text(line), "none") << line;
}

TEST(SpawnOutput, MpirunBlamesARank) {
  EXPECT_EQ(blamed_rank({"---", "  Process name: [[63187,1],12]", "  Exit code:    7"}), 12);
  EXPECT_EQ(blamed_rank({"mpirun noticed that process rank 2 with PID 71 on node a exited on signal 9 (Killed)."}), 2);
  EXPECT_EQ(blamed_rank({"   Process name: [prterun-a-71@1,3]"}), 3);
  EXPECT_EQ(blamed_rank({"error: rank 2 (host b) is lost: nothing was heard"}), 2);
  EXPECT_EQ(blamed_rank({"Process name: [", "process rank x", "error: rank 2", "error: rank x) is lost: "}), -1);
  EXPECT_EQ(blamed_rank({}), -1);
}

TEST(SpawnOutput, LinesAreCut) {
  LineCutter lines;
  lines.add("a\nb");
  EXPECT_EQ(lines.next(), "a");
  EXPECT_EQ(lines.next(), std::nullopt);
  lines.add("c\n\n");
  EXPECT_EQ(lines.next(), "bc");
  EXPECT_EQ(lines.next(), "");
  lines.add("end");
  EXPECT_EQ(lines.rest(), "end");
  EXPECT_EQ(lines.rest(), std::nullopt);
}

}  // namespace
}  // namespace llmc::ranks
