#include "spec/targets.h"

#include <algorithm>

#include "device/cpu/arch_names.h"
#include "spec/gpus.h"
#include "spec/spec.h"

namespace llmc::spec {

const std::vector<DeviceMemory>& device_memories() {
  static const std::vector<DeviceMemory> list = [] {
    std::vector<DeviceMemory> devices;
    for (const Gpu& gpu : gpus())
      for (const char* name : {gpu.name, gpu.also})
        if (*name) devices.push_back({name, gpu.budget, gpu.arch});
    return devices;
  }();
  return list;
}

bool is_of(const DeviceMemory& device, const std::string& arch) {
  return arch.substr(0, arch.find('a')) == device.arch;
}

std::int64_t default_budget(const std::vector<std::string>& archs) {
  std::int64_t smallest = 0;
  for (const DeviceMemory& device : device_memories())
    for (const std::string& arch : archs)
      if (is_of(device, arch) && (smallest == 0 || device.budget < smallest)) smallest = device.budget;
  return smallest == 0 ? std::int64_t{16} << 30 : smallest;
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
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list = {"native"};
    for (const CpuArch& arch : kProposedArchs) list.emplace_back(arch.name);
    for (const CpuArch& arch : kOtherArchs) list.emplace_back(arch.name);
    return list;
  }();
  return names;
}

const std::vector<std::string>& architectures_with_tiles() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const CpuArch& arch : kProposedArchs)
      if (arch.extensions & kAmx) list.emplace_back(arch.name);
    for (const CpuArch& arch : kOtherArchs)
      if (arch.extensions & kAmx) list.emplace_back(arch.name);
    return list;
  }();
  return names;
}

const std::vector<std::string>& cuda_architectures() {
  static const std::vector<std::string> names = {"80",  "86",   "87",  "89",   "90",  "90a",
                                                 "100", "100a", "103", "103a", "120", "120a"};
  return names;
}

CodeProducts code_products(Matmul matmul, const std::string& cuda_arch) {
  if (cuda_arch.size() == 2 && cuda_arch < "89") return CodeProducts::emulated;
  if (matmul == Matmul::mxfp8) return cuda_arch.starts_with("10") ? CodeProducts::hardware : CodeProducts::none;
  const bool has_row_scales = cuda_arch == "90" || cuda_arch == "90a";
  return has_row_scales || matmul == Matmul::fp8_tensor ? CodeProducts::hardware : CodeProducts::none;
}

bool has_code_products(Matmul matmul, const Target& target) {
  return target.kind == TargetKind::cuda && std::ranges::all_of(target.arch, [&](const std::string& arch) {
           return code_products(matmul, arch) == CodeProducts::hardware;
         });
}

bool multiplies_codes(const Spec& spec) {
  return spec.has_fp8_products() && has_code_products(spec.matmul, spec.target);
}

std::int64_t chunk_multiple(const Spec& spec) {
  const bool by_rows = spec.matmul == Matmul::fp8 || spec.matmul == Matmul::fp8_full;
  return by_rows && spec.fp8.head != Fp8Head::off && multiplies_codes(spec) ? 16 / sizeof(float) : 1;
}

bool is_planned_only(const Spec& spec) { return spec.matmul == Matmul::mxfp8 && multiplies_codes(spec); }

}  // namespace llmc::spec
