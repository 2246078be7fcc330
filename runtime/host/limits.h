// The share of its machine that a process has and may take: memory and processors, by the machine and by control groups
// (containers).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace llmc {

/// Groups are those of this process and all above them that it sees: memory.max and cpu.max, in version 1
/// memory.limit_in_bytes and cpu.cfs_quota_us. `root` holds proc and the groups' mounts: of tests, a tree of their own.
class HostLimits {
 public:
  explicit HostLimits(std::filesystem::path root = "/") : root_(std::move(root)) {}

  struct Memory {
    std::size_t bytes = 0;  // 0: nothing says
    std::string file;       // that says so; empty: /proc/meminfo
  };
  /// Bytes that can be used without swapping: the smallest of MemAvailable and what each group has left of its limit.
  /// The group's file cache counts as left, as MemAvailable counts the machine's: the kernel drops it before it kills.
  Memory free_memory() const;

  /// Of `processors`, as many as the groups' time is for: 2.5 processors' time is for 3. At least 1.
  int processors(int processors) const;
  /// Of those that this process may run on.
  int processors() const;

 private:
  std::filesystem::path root_;
};

/// Bytes of this process that are in the machine's memory; 0 where that cannot be read.
std::int64_t resident_bytes();

}  // namespace llmc
