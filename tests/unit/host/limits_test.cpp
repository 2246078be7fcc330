// Limits by control groups, from files as kernels write them.
#include "host/limits.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>

#include "files/temporary_folder.h"

namespace llmc {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;
constexpr const char* kNoLimit = "9223372036854771712\n";  // "no limit" of version 1

class Limits : public testing::Test {
 protected:
  void SetUp() override { write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"); }

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = folder_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  /// Version 2, in /job of a slice.
  void second_version() const {
    write("proc/self/cgroup", "0::/slice/job\n");
    write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void group(const std::string& path, const std::string& most, std::size_t used, std::size_t cache) const {
    write(path + "/memory.max", most);
    write(path + "/memory.current", std::to_string(used) + "\n");
    write(path + "/memory.stat", "anon 1\nfile 99\ninactive_file " + std::to_string(cache / 4) + "\nactive_file " +
                                     std::to_string(cache - cache / 4) + "\n");
  }
  HostLimits limits() const { return HostLimits(folder_.path()); }

  TemporaryFolder folder_{"limits"};
};

TEST_F(Limits, WithoutGroupsTheMachinesMemoryIsFree) {
  EXPECT_EQ(limits().free_memory().bytes, 8 * kGiB);
  EXPECT_EQ(limits().free_memory().file, "");
  EXPECT_EQ(limits().processors(6), 6);
  EXPECT_EQ(HostLimits(folder_.path() / "nothing").free_memory().bytes, 0u);
}

TEST_F(Limits, AGroupHasLeftWhatItsLimitSaysWithItsFileCache) {
  second_version();
  group("sys/fs/cgroup/slice/job", std::to_string(4 * kGiB) + "\n", 3 * kGiB, kGiB);
  const auto [bytes, file] = limits().free_memory();
  EXPECT_EQ(bytes, 2 * kGiB);
  EXPECT_EQ(file, folder_.path() / "sys/fs/cgroup/slice/job/memory.max");
}

TEST_F(Limits, GroupsAboveCount) {
  second_version();
  group("sys/fs/cgroup/slice/job", "max\n", 3 * kGiB, 0);
  group("sys/fs/cgroup/slice", std::to_string(6 * kGiB) + "\n", 5 * kGiB, 0);
  EXPECT_EQ(limits().free_memory().bytes, kGiB);
  EXPECT_EQ(limits().free_memory().file, folder_.path() / "sys/fs/cgroup/slice/memory.max");
}

TEST_F(Limits, TheMachineMayHaveLess) {
  second_version();
  group("sys/fs/cgroup/slice/job", std::to_string(64 * kGiB) + "\n", kGiB, 0);
  EXPECT_EQ(limits().free_memory().bytes, 8 * kGiB);
  EXPECT_EQ(limits().free_memory().file, "");
}

TEST_F(Limits, AGroupThatIsFullHasNothing) {
  second_version();
  group("sys/fs/cgroup/slice/job", std::to_string(kGiB) + "\n", kGiB + 4096, 0);
  EXPECT_EQ(limits().free_memory().bytes, 1u);  // 0 would mean unknown
}

TEST_F(Limits, VersionOneHasAHierarchyForEachController) {
  write("proc/self/cgroup", "5:memory:/docker/7\n3:cpu,cpuacct:/docker/7\n1:name=systemd:/other\n0::/other\n");
  write("proc/self/mountinfo",
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
  const std::string memory = "sys/fs/cgroup/memory", cpu = "sys/fs/cgroup/cpu,cpuacct";
  write(memory + "/memory.limit_in_bytes", kNoLimit);
  write(memory + "/docker/7/memory.limit_in_bytes", std::to_string(2 * kGiB) + "\n");
  write(memory + "/docker/7/memory.usage_in_bytes", std::to_string(kGiB) + "\n");
  write(memory + "/docker/7/memory.stat", "inactive_file 7\ntotal_inactive_file 4096\ntotal_active_file 4096\n");
  write(cpu + "/docker/7/cpu.cfs_quota_us", "150000\n");
  write(cpu + "/docker/7/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(limits().free_memory().bytes, kGiB + 8192);
  EXPECT_EQ(limits().processors(6), 2);
  write(cpu + "/docker/7/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(limits().processors(6), 6);
}

TEST_F(Limits, AContainerSeesItsOwnGroupAsTheRootOfItsMount) {
  write("proc/self/cgroup", "5:memory:/docker/7/below\n");
  write("proc/self/mountinfo", "35 31 0:32 /docker/7 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", kNoLimit);
  write("sys/fs/cgroup/memory/below/memory.limit_in_bytes", std::to_string(3 * kGiB) + "\n");
  write("sys/fs/cgroup/memory/below/memory.usage_in_bytes", std::to_string(kGiB) + "\n");
  EXPECT_EQ(limits().free_memory().bytes, 2 * kGiB);
}

TEST_F(Limits, AGroupOutsideOfTheMountIsTakenForItsRoot) {
  write("proc/self/cgroup", "0::/../elsewhere\n");
  write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  group("sys/fs/cgroup", std::to_string(kGiB) + "\n", 0, 0);
  EXPECT_EQ(limits().free_memory().bytes, kGiB);
}

TEST_F(Limits, TimeOfProcessorsIsRoundedUp) {
  second_version();
  for (const auto& [most, processors] : {std::pair{"250000 100000\n", 3},
                                         {"200000 100000\n", 2},
                                         {"1000 100000\n", 1},
                                         {"900000 100000\n", 6},
                                         {"max 100000\n", 6},
                                         {"", 6}}) {
    write("sys/fs/cgroup/slice/job/cpu.max", most);
    EXPECT_EQ(limits().processors(6), processors) << most;
  }
  write("sys/fs/cgroup/slice/cpu.max", "100000 100000\n");  // in the parent group
  EXPECT_EQ(limits().processors(6), 1);
  EXPECT_EQ(limits().processors(), 1);
}

TEST_F(Limits, ProcessorsThatTheProcessMayNotRunOnDoNotCount) {
  cpu_set_t mine, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  EXPECT_EQ(limits().processors(), CPU_COUNT(&mine));
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &mine)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(limits().processors(), 1);
  sched_setaffinity(0, sizeof mine, &mine);
}

}  // namespace
}  // namespace llmc
