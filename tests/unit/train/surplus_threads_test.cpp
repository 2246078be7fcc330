// The warning for more threads than processors, over the ranks of one machine.
#include "trainer/startup/surplus_threads.h"

#include <gtest/gtest.h>

#include <fstream>

#include "../facts.h"
#include "files/temporary_folder.h"

namespace llmc {
namespace {

using test::has_facts;

class SurplusThreads : public testing::Test {
 protected:
  std::string warning(const std::vector<RankThreads>& ranks) const {
    return surplus_threads(ranks, HostLimits(machine_.path()));
  }
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = machine_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  TemporaryFolder machine_{"surplus"};
};

TEST_F(SurplusThreads, OfOneRank) {
  EXPECT_EQ(warning({{"a", 2, "0 1"}}), "");
  EXPECT_TRUE(has_facts(warning({{"a", 3, "0 1"}}), {"3 threads", "2 processors", "--threads 2"}));
  EXPECT_TRUE(has_facts(warning({{"a", 2, "5"}}), {"2 threads", "1 processor,", "--threads 1"}));
  EXPECT_EQ(warning({{"a", 1, ""}}), "") << "a GPU's threads";
}

TEST_F(SurplusThreads, OfAllRanksOnTheMachine) {
  EXPECT_EQ(warning({{"a", 1, "0 1"}, {"a", 1, "0 1"}}), "");
  EXPECT_TRUE(has_facts(warning({{"a", 2, "0 1"}, {"a", 2, "0 1"}}),
                        {"2 ranks", "2 threads each", "2 processors", "--threads 1"}));
  EXPECT_TRUE(has_facts(warning({{"a", 4, "0 1 2 3 4 5"}, {"a", 3, "0 1 2 3 4 5"}}),
                        {"2 ranks", "3 to 4 threads each", "6 processors", "--threads 3"}));
  const std::string more = warning({{"a", 1, "0 1"}, {"a", 1, "0 1"}, {"a", 1, "0 1"}});
  EXPECT_TRUE(has_facts(more, {"3 ranks", "1 thread each", "2 processors", "2 ranks", "--threads 1"}));
}

TEST_F(SurplusThreads, RanksBoundToTheirOwnProcessorsShareNone) {
  EXPECT_EQ(warning({{"a", 2, "0 1"}, {"a", 2, "2 3"}}), "");
  EXPECT_TRUE(has_facts(warning({{"a", 2, "0 1"}, {"a", 2, "1 2"}}), {"2 ranks", "3 processors"}));
}

TEST_F(SurplusThreads, OtherMachinesDoNotCount) {
  EXPECT_EQ(warning({{"a", 2, "0 1"}, {"b", 2, "0 1"}, {"b", 2, "0 1"}}), "");
  EXPECT_TRUE(has_facts(warning({{"a", 2, "0 1"}, {"b", 9, "0 1"}, {"a", 2, "0 1"}}), {"2 ranks", "2 threads each"}));
}

TEST_F(SurplusThreads, TimeOfProcessorsIsLimited) {
  write("proc/self/cgroup", "0::/job\n");
  write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  write("sys/fs/cgroup/job/cpu.max", "300000 100000\n");
  EXPECT_TRUE(has_facts(warning({{"a", 2, "0 1 2 3 4 5"}, {"a", 2, "0 1 2 3 4 5"}}),
                        {"2 ranks", "3 processors", "--threads 1"}));
}

}  // namespace
}  // namespace llmc
