#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "compiler/cli/commands.h"
#include "compiler/devices/device.h"
#include "compiler/devices/files.h"
#include "error.h"
#include "spec/schema/schema.h"
#include "spec/targets.h"

namespace llmc::cli {

namespace {

using devices::Device;
using devices::Figure;

std::string table() {
  std::string out = fmt::format("{:<12} {:>5} {:>7} {:>5} {:>12} {:>12} {:>10}  {}\n", "device", "arch", "memory",
                                "SMs", "bf16 peak", "sustained", "copy", "also called");
  for (const Device& device : devices::listed()) {
    std::string also;
    for (const std::string& name : device.also) also += name + ", ";
    also += device.reports;
    const double rate = 1e-12 * device[Figure::product_bf16];
    const std::string line = fmt::format(
        "{:<12} {:>5} {:>3.0f} GiB {:>5.0f} {:>6.4g} TFLOP/s {:>4} TFLOP/s {:>5.0f} GB/s  {}",
        spec::printable(device.name), device.arch.empty() ? "cpu" : spec::arch_of_capability(device.arch),
        device[Figure::memory] / (1 << 30), device[Figure::processors], 1e-12 * device[Figure::peak_bf16],
        rate < 1000 ? fmt::format("{:.3g}", rate) : fmt::format("{:.0f}", rate), 1e-9 * device[Figure::copy], also);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string file_of(const std::string& name) {
  const std::string called = devices::name_of_called(name);
  if (const std::filesystem::path own = devices::user_file(called); !own.empty())
    return "# " + own.string() + "\n" + devices::text_of(own);
  for (std::size_t i = 0; i < devices::all().size(); ++i) {
    const std::string text = devices::files()[i].text;  // its first line describes the device
    if (devices::all()[i].name == called) return text.substr(0, text.find('\n') + 1) + to_yaml(devices::all()[i]);
  }
  const std::vector<std::string> names = devices::names();
  const std::string meant = spec::did_you_mean(name, names);
  throw Failure(Exit::usage, fmt::format("llmc knows no device '{}'. {}", spec::printable(name),
                                         meant.empty() ? fmt::format("There are {}", fmt::join(names, ", ")) : meant));
}

}  // namespace

void add_device_commands(CLI::App& app) {
  auto name = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("devices", "list the devices that the planner knows, or print the file of one");
  command->add_option("name", *name, "device whose file to print: its figures and the origin of each");
  command->footer("Example: llmc devices h100-sxm > mine.yaml, then target.device: mine.yaml");
  command->callback([name] { fmt::print("{}", name->empty() ? table() : file_of(*name)); });
}

}  // namespace llmc::cli
