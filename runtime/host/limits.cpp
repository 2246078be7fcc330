#include "host/limits.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace llmc {
namespace fs = std::filesystem;

namespace {

/// Folder of a control group, and the version (v1 or v2) of its files.
struct Group {
  fs::path folder;
  bool second;
};

bool has_word(const std::string& list, std::string_view word) {
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');)
    if (part == word) return true;
  return false;
}

/// Path of this process's group below the mount of a hierarchy. For v1, of the hierarchy of `controller`.
std::optional<std::string> group_path(const fs::path& root, bool second, std::string_view controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // v1: 4:cpu,cpuacct:/path; v2: 0::/path
    const auto first = line.find(':'), last = line.find(':', first + 1);
    if (last == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, last - first - 1);
    if (second ? controllers.empty() : has_word(controllers, controller)) return line.substr(last + 1);
  }
  return std::nullopt;
}

/// Adds the process's group and its ancestors, as far as they are mounted. A container may see its own group as the
/// root of the mount, under another name than the host uses.
void add_groups(std::vector<Group>& groups, const fs::path& root, const fs::path& mount, const std::string& mounted,
                const std::string& path, bool second) {
  std::string below = path;
  if (mounted != "/") below = path.starts_with(mounted) ? path.substr(mounted.size()) : "";
  const fs::path top = root / mount.relative_path();
  fs::path folder = (top / fs::path(below).relative_path()).lexically_normal();
  std::error_code missing;
  if (below.find("..") != std::string::npos || !fs::is_directory(folder, missing)) folder = top;
  for (;; folder = folder.parent_path()) {
    if (!folder.has_filename()) folder = folder.parent_path();
    groups.push_back({folder, second});
    if (folder == top.lexically_normal() || folder == folder.parent_path()) return;
  }
}

/// Innermost group first.
std::vector<Group> groups_of(const fs::path& root, std::string_view controller) {
  std::vector<Group> groups;
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    // 36 35 98:0 /mounted /where options [fields] - type source options
    std::istringstream in(line);
    std::string word, mounted, where, type, source, options;
    in >> word >> word >> word >> mounted >> where;
    while (in >> word && word != "-") {
    }
    if (!(in >> type >> source >> options)) continue;
    const bool second = type == "cgroup2";
    if (!second && (type != "cgroup" || !has_word(options, controller))) continue;
    if (const auto path = group_path(root, second, controller)) add_groups(groups, root, where, mounted, *path, second);
  }
  return groups;
}

/// First token of a file as a number; nothing if the file is missing or the token is not a number, such as "max".
std::optional<double> number_in(const fs::path& path) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

/// Parses lines "name value", with or without a colon and a unit.
std::map<std::string, double> numbers_in(const fs::path& path) {
  std::map<std::string, double> numbers;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string name;
    double value = 0;
    if (in >> name >> value) numbers[name] = value;
  }
  return numbers;
}

/// Bytes left below a group's memory limit.
std::optional<HostLimits::Memory> left_of(const Group& group) {
  const fs::path file = group.folder / (group.second ? "memory.max" : "memory.limit_in_bytes");
  const std::optional<double> limit = number_in(file);
  constexpr double kNone = 0x1p62;  // v1 writes "no limit" as the largest multiple of a page below 2^63
  if (!limit || *limit >= kNone) return std::nullopt;
  const double used = number_in(group.folder / (group.second ? "memory.current" : "memory.usage_in_bytes")).value_or(0);
  auto stat = numbers_in(group.folder / "memory.stat");
  const std::string of = group.second ? "" : "total_";  // totals include descendant groups
  const double cache = stat[of + "active_file"] + stat[of + "inactive_file"];
  const double left = std::min(*limit, *limit - used + cache);
  return HostLimits::Memory{static_cast<std::size_t>(std::max(left, 1.0)), file.string()};
}

/// Processors' worth of time that a group may use.
std::optional<double> time_of(const Group& group) {
  double quota = 0, period = 0;
  if (group.second) {
    std::ifstream file(group.folder / "cpu.max");  // "max 100000", or "250000 100000"
    if (!(file >> quota >> period)) return std::nullopt;
  } else {
    quota = number_in(group.folder / "cpu.cfs_quota_us").value_or(-1);
    period = number_in(group.folder / "cpu.cfs_period_us").value_or(0);
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

}  // namespace

HostLimits::Memory HostLimits::free_memory() const {
  Memory free;
  if (auto machine = numbers_in(root_ / "proc/meminfo"); machine.contains("MemAvailable:"))
    free.bytes = static_cast<std::size_t>(machine["MemAvailable:"]) << 10;
  for (const Group& group : groups_of(root_, "memory"))
    if (const auto left = left_of(group); left && (free.bytes == 0 || left->bytes < free.bytes)) free = *left;
  return free;
}

int HostLimits::processors(int processors) const {
  double most = std::max(processors, 1);
  for (const Group& group : groups_of(root_, "cpu"))
    if (const auto time = time_of(group)) most = std::min(most, std::max(1.0, std::ceil(*time)));
  return static_cast<int>(most);
}

int HostLimits::processors() const {
  cpu_set_t set;
  CPU_ZERO(&set);
  return processors(sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1);
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  return file >> total >> resident ? resident * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace llmc
