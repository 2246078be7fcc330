#include "compiler/cli/device_overrides.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "error.h"
#include "spec/targets.h"

namespace llmc::cli {

namespace {

/// Bytes for a run on so many such devices, as memory.budget's default leaves them.
std::int64_t budget_on(const devices::Device& device, std::int64_t world_size) {
  return static_cast<std::int64_t>(device[devices::Figure::memory]) - (world_size > 1 ? spec::kMemoryOfNccl : 0);
}

/// Returns a value of memory.budget: the device's name if it stands for the same size.
std::string budget_word(const devices::Device& device, std::int64_t world_size) {
  const std::int64_t bytes = budget_on(device, world_size);
  constexpr std::int64_t kMiB = 1 << 20, kGiB = 1 << 30;
  if (spec::device_budget(device.name) == bytes) return device.name;
  if (bytes % kGiB == 0) return fmt::format("{}GiB", bytes / kGiB);
  return bytes % kMiB == 0 ? fmt::format("{}MiB", bytes / kMiB) : fmt::format("{}", bytes);
}

bool is_good(const spec::LoadResult& loaded) { return loaded.resolved || !loaded.phases.empty(); }

bool runs_on(const spec::Spec& spec, const devices::Device& device) {
  return std::ranges::any_of(spec.target.arch,
                             [&](const std::string& arch) { return spec::is_of({"", 0, device.arch.c_str()}, arch); });
}

}  // namespace

devices::Device device_of_option(const std::string& name) try {
  return devices::named(name);
} catch (const Failure& failure) {
  throw Failure(Exit::usage, fmt::format("--device: {}", failure.what()));
}

std::vector<std::string> overrides_for_device(const SpecArguments& arguments, const std::string& name) {
  const devices::Device device = device_of_option(name);
  const auto other = [&](const std::string& word) { return word != name && !device.is_called(word); };
  for (const std::string& word : arguments.overrides)
    if (word.starts_with("target.device=") && other(word.substr(word.find('=') + 1)))
      throw Failure(Exit::usage, fmt::format("--device {} and {} name different devices. Leave out one of them", name,
                                             spec::printable(word)));
  const spec::LoadResult loaded = read_spec(arguments);
  std::vector<std::string> words;
  const auto add = [&](const std::string& key, const std::string& value) {
    const bool typed =
        std::ranges::any_of(arguments.overrides, [&](const std::string& word) { return word.starts_with(key + "="); });
    if (!typed) words.push_back(key + "=" + value);
  };
  const bool cuda = device.kind == spec::TargetKind::cuda;
  const std::string arch = fmt::format("[{}]", spec::arch_of_capability(device.arch));
  if (!is_good(loaded)) {  // perhaps because it is for another device; planning reports its other errors
    if (cuda) add("target.arch", arch);
    add("target.device", name);
    if (cuda) add("memory.budget", budget_word(device, 1));
    return words;
  }
  const spec::Spec& spec = (loaded.resolved ? *loaded.resolved : loaded.phases.front()).spec;
  const bool other_kind = spec.target.kind != device.kind;
  if (other_kind) add("target.kind", cuda ? "cuda" : "cpu");
  const bool other_arch = cuda && (other_kind || !runs_on(spec, device));
  if (other_arch) add("target.arch", arch);
  add("target.device", name);
  // A budget may be the name of a device of the old arch, even if its bytes are the same.
  if (other_kind || other_arch || (cuda && spec.memory.budget != budget_on(device, spec.parallel.world_size)))
    add("memory.budget", budget_word(device, cuda ? spec.parallel.world_size : 1));
  const bool other_scales =
      cuda && spec.has_fp8_products() && spec::code_products(spec.matmul, device.arch) == spec::CodeProducts::none;
  if (other_scales) {
    // It rounds the operands of more products, and leaves other layers in bf16.
    SpecArguments trial = arguments;
    trial.overrides.insert(trial.overrides.end(), words.begin(), words.end());
    trial.overrides.push_back("precision.matmul=fp8_tensor");
    add("precision.matmul", is_good(read_spec(trial)) ? "fp8_tensor" : "auto");
  }
  if (!cuda && spec.compute == DType::f16) add("precision.compute", "bf16");
  if (cuda ? spec.matmul == spec::Matmul::bf16x3 : spec.matmul == spec::Matmul::tf32) add("precision.matmul", "auto");
  return words;
}

}  // namespace llmc::cli
