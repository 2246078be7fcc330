// Devices by name: the built-in ones and those of the user's folder.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <set>

#include "compiler/devices/device.h"
#include "compiler/devices/files.h"
#include "error.h"
#include "files/disk.h"
#include "spec/gpus.h"
#include "spec/scalars.h"
#include "spec/schema/schema.h"

namespace llmc::devices {
namespace {

constexpr std::size_t kLargestFile = 1 << 20;

/// Device of a built-in file, which is parsed once: a plan asks for one of them many times.
const Device& built_in(std::size_t file) {
  static std::mutex mutex;
  static std::vector<std::optional<Device>> parsed(files().size());
  const std::lock_guard lock(mutex);
  if (!parsed[file]) parsed[file] = read(files()[file].text, files()[file].name);
  return *parsed[file];
}

Device read_file(const std::filesystem::path& path) { return read(text_of(path), path.string()); }

/// A file of the user's folder is the device of the file's name.
Device read_own(const std::filesystem::path& path) {
  Device device = read_file(path);
  device.name = path.stem();
  return device;
}

/// The user's files of devices that are not built in, sorted.
std::set<std::filesystem::path> more_files() {
  std::set<std::filesystem::path> more;
  for (const std::filesystem::path& path : disk::readable_entries(user_folder())) {
    const bool built_in = std::ranges::any_of(all(), [&](const Device& device) { return device.name == path.stem(); });
    if (path.extension() == ".yaml" && !built_in) more.insert(path);
  }
  return more;
}

/// Drops the suffix of an architecture: "90" of "90a".
std::string capability(const std::string& arch) { return arch.substr(0, arch.find_last_of("0123456789") + 1); }

void check_target(const Device& device, const spec::Spec& spec) {
  const auto fits = [&](const std::string& arch) { return capability(arch) == device.arch; };
  if (device.kind != spec.target.kind ||
      (device.kind == spec::TargetKind::cuda && std::ranges::none_of(spec.target.arch, fits)))
    throw Failure(
        Exit::spec,
        fmt::format("target.device {} is {}, but target.kind is {} with arch {}. Run `llmc plan SPEC --device {}` to "
                    "see the values that fit this device, or name a device of the target's kind",
                    device.name,
                    device.kind == spec::TargetKind::cuda ? "of compute capability " + device.arch : "a cpu",
                    spec.target.kind == spec::TargetKind::cuda ? "cuda" : "cpu", spec::either(spec.target.arch),
                    spec.target.device));
}

/// Returns the device that a spec without target.device is planned for; `arch`: empty for a cpu. Throws Failure(spec)
/// if a user's file of that name is of another kind or arch: the times would be those of another device.
Device standard(const std::string& name, const std::string& arch) {
  Device device = named(name);
  if (device.kind == spec::TargetKind::cpu) device.arch.clear();
  if (device.arch == arch) return device;
  const auto of = [](const std::string& capability) {
    return capability.empty() ? "a cpu" : "of compute capability " + capability;
  };
  throw Failure(Exit::spec, fmt::format("{} is {}, but a spec without target.device is planned for {}, which is {}. "
                                        "Correct kind and arch in the file, or give it another name and write that as "
                                        "target.device",
                                        user_file(name).string(), of(device.arch), name, of(arch)));
}

}  // namespace

const std::vector<Device>& all() {
  static const std::vector<Device> list = [] {
    std::vector<Device> devices;
    for (std::size_t i = 0; i < files().size(); ++i) devices.push_back(built_in(i));
    return devices;
  }();
  return list;
}

std::string text_of(const std::filesystem::path& path) {
  std::optional<std::string> text = disk::text(path, kLargestFile);
  if (text) return *std::move(text);
  throw Failure(Exit::spec, fmt::format("{} cannot be read as a device file: {}. Write a device that `llmc devices` "
                                        "lists, or the path of a file in the form that `llmc devices NAME` prints",
                                        path.string(), std::strerror(errno)));
}

std::filesystem::path user_folder() {
  if (const char* config = std::getenv("XDG_CONFIG_HOME"); config && *config)
    return std::filesystem::path(config) / "llmc/devices";
  if (const char* home = std::getenv("HOME"); home && *home)
    return std::filesystem::path(home) / ".config/llmc/devices";
  return {};
}

std::filesystem::path user_file(const std::string& name) {
  if (name.empty()) return {};
  const std::filesystem::path folder = user_folder(), path = folder / (name + ".yaml");
  std::error_code unknown;  // a folder that this process may not search holds no file for it
  return !folder.empty() && std::filesystem::is_regular_file(path, unknown) ? path : std::filesystem::path();
}

std::vector<Device> listed() {
  std::vector<Device> devices;
  for (const Device& device : all()) devices.push_back(named(device.name));
  for (const std::filesystem::path& path : more_files()) devices.push_back(read_own(path));
  return devices;
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const Device& device : all()) names.push_back(device.name);
  for (const std::filesystem::path& path : more_files()) names.push_back(path.stem());
  return names;
}

std::string name_of_called(const std::string& word) {
  if (!user_file(word).empty()) return word;
  for (const Device& device : all())
    if (device.is_called(word)) return device.name;
  for (const std::filesystem::path& path : more_files())
    if (read_own(path).is_called(word)) return path.stem();
  return "";
}

Device named(const std::string& word) {
  if (spec::names_file(word)) return read_file(word);
  const auto is_built_in = [](const std::string& name) {
    return [&name](const File& file) { return std::filesystem::path(file.name).stem() == name; };
  };
  // Of most devices the name is given, and not all files need to be read.
  const bool known = !user_file(word).empty() || std::ranges::any_of(files(), is_built_in(word));
  const std::string name = known ? word : name_of_called(word);
  if (const std::filesystem::path own = user_file(name); !own.empty()) return read_own(own);
  const auto file = std::ranges::find_if(files(), is_built_in(name));
  if (file != files().end()) return built_in(static_cast<std::size_t>(file - files().begin()));
  const std::string meant = spec::did_you_mean(word, names());
  throw Failure(Exit::spec, fmt::format("no device is called {}. {}{}`llmc devices` lists them; name a file "
                                        "of your own by its path",
                                        word, meant, meant.empty() ? "" : " "));
}

Device find(const spec::Spec& spec) {
  if (!spec.target.device.empty()) {
    Device device = named(spec.target.device);
    check_target(device, spec);
    return device;
  }
  if (spec.target.kind == spec::TargetKind::cpu) return standard("cpu", "");
  // The smallest GPU with one of the target's architectures, as the default of memory.budget takes it; if none has one,
  // the nearest architecture's. Their table tells, because reading all device files takes longer than most plans.
  const auto distance = [&](const spec::Gpu& gpu) {
    int least = std::numeric_limits<int>::max();
    for (const std::string& arch : spec.target.arch)
      least = std::min(least, std::abs(std::stoi(arch) - std::stoi(gpu.arch)));
    return std::pair(least, gpu.budget);
  };
  const spec::Gpu* nearest = nullptr;
  for (const spec::Gpu& gpu : spec::gpus())
    if (*gpu.name && (!nearest || distance(gpu) <= distance(*nearest))) nearest = &gpu;
  return standard(nearest->name, nearest->arch);
}

}  // namespace llmc::devices
