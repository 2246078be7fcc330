#include "spec/targets.h"

#include <algorithm>

namespace llmc::spec {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

}  // namespace

// What the driver reports as total (79.6 GiB of an "80 GB" H100), less 2 GiB for the context and the libraries' own
// workspaces. compiler/devices/*.yaml say the same of the same names, which a test compares: a trainer reads no YAML.
const std::vector<DeviceMemory>& device_memories() {
  static const std::vector<DeviceMemory> table = {
      {"a100-40gb", 37 * kGiB, "80"},
      {"a100-80gb", 77 * kGiB, "80"},
      {"a10-24gb", 20 * kGiB, "86"},
      {"a10", 20 * kGiB, "86"},
      {"l4-24gb", 20 * kGiB, "89"},
      {"l4", 20 * kGiB, "89"},
      {"l40s-48gb", 42 * kGiB, "89"},
      {"l40s", 42 * kGiB, "89"},
      {"h100-94gb", 91 * kGiB, "90"},
      {"h100-nvl", 91 * kGiB, "90"},
      {"h100-pcie", 77 * kGiB, "90"},
      {"h100-sxm", 77 * kGiB, "90"},
      {"h200-141gb", 137 * kGiB, "90"},
      {"h200", 137 * kGiB, "90"},
      {"b200-180gb", 175 * kGiB, "100"},
      {"b200", 175 * kGiB, "100"},
      {"rtx4090-24gb", 21 * kGiB + 512 * kMiB, "89"},
      {"rtx-4090", 21 * kGiB + 512 * kMiB, "89"},
      {"rtx5090-32gb", 29 * kGiB, "120"},
      {"rtx-5090", 29 * kGiB, "120"},
      {"h100-80gb", 77 * kGiB, "90"},  // last: messages take it for their example
  };
  return table;
}

bool is_of(const DeviceMemory& device, const std::string& arch) {
  return arch.substr(0, arch.find('a')) == device.arch;
}

std::int64_t default_budget(const std::vector<std::string>& archs) {
  std::int64_t smallest = 0;
  for (const DeviceMemory& device : device_memories())
    for (const std::string& arch : archs)
      if (is_of(device, arch) && (smallest == 0 || device.budget < smallest)) smallest = device.budget;
  return smallest == 0 ? 16 * kGiB : smallest;
}

std::optional<std::int64_t> device_budget(const std::string& name) {
  for (const DeviceMemory& device : device_memories())
    if (name == device.name) return device.budget;
  return {};
}

std::string arch_of_capability(const std::string& capability) {
  const std::vector<std::string>& archs = cuda_architectures();
  const bool own = std::find(archs.begin(), archs.end(), capability + "a") != archs.end();
  return own ? capability + "a" : capability;
}

const std::vector<std::string>& cpu_architectures() {
  static const std::vector<std::string> names = {
      "native",     "x86-64",         "x86-64-v2",      "x86-64-v3",  "x86-64-v4",      "haswell",        "broadwell",
      "skylake",    "skylake-avx512", "cascadelake",    "cooperlake", "icelake-client", "icelake-server", "tigerlake",
      "rocketlake", "alderlake",      "sapphirerapids", "znver1",     "znver2",         "znver3",         "znver4"};
  return names;
}

const std::vector<std::string>& architectures_with_tiles() {
  static const std::vector<std::string> names = {"sapphirerapids"};
  return names;
}

const std::vector<std::string>& cuda_architectures() {
  static const std::vector<std::string> names = {"80",  "86",   "87",  "89",   "90",  "90a",
                                                 "100", "100a", "103", "103a", "120", "120a"};
  return names;
}

}  // namespace llmc::spec
