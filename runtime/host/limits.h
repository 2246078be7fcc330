// Memory and processors that this process may use: those of the machine, or less by limits of control groups
// (containers).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace llmc {

/// Considers this process's group and all visible ancestors: memory.max and cpu.max, in cgroup v1 memory.limit_in_bytes
/// and cpu.cfs_quota_us. `root` contains proc and the cgroup mounts; tests pass a tree of their own.
class HostLimits {
 public:
  explicit HostLimits(std::filesystem::path root = "/") : root_(std::move(root)) {}

  struct Memory {
    std::size_t bytes = 0;  // 0: unknown
    std::string file;       // the limiting file; empty: /proc/meminfo
  };
  /// Bytes usable without swapping: the smallest of MemAvailable and each group's remaining limit. File cache of a
  /// group counts as free, as in MemAvailable, because the kernel drops it before it kills.
  Memory free_memory() const;

  /// Returns `processors` reduced to the groups' time quota, rounded up (2.5 gives 3). At least 1.
  int processors(int processors) const;
  /// Same, starting from the processors of this process's affinity mask.
  int processors() const;

 private:
  std::filesystem::path root_;
};

/// Resident memory of this process in bytes; 0 if it cannot be read.
std::int64_t resident_bytes();

}  // namespace llmc
