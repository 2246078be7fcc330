#include "spec/gpus.h"

namespace llmc::spec {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr double kT = 1e12;

}  // namespace

// The budget is the total that the driver reports (79.6 GiB on an "80 GB" H100), minus 2 GiB for the context and the
// libraries' own workspaces. Peaks are from NVIDIA's data sheets, without sparsity.
const std::vector<Gpu>& gpus() {
  static const std::vector<Gpu> table = {
      {"a100-40gb", "", "80", "NVIDIA A100-SXM4-40GB", 37 * kGiB, 312 * kT, 19.5 * kT},
      {"a100-80gb", "", "80", "NVIDIA A100-SXM4-80GB", 77 * kGiB, 312 * kT, 19.5 * kT},
      {"", "", "80", "NVIDIA A100", 0, 312 * kT, 19.5 * kT},
      {"a10", "a10-24gb", "86", "NVIDIA A10", 20 * kGiB, 125 * kT, 31.2 * kT},
      {"l4", "l4-24gb", "89", "NVIDIA L4", 20 * kGiB, 121 * kT, 30.3 * kT},
      {"l40s", "l40s-48gb", "89", "NVIDIA L40S", 42 * kGiB, 362 * kT, 91.6 * kT},
      {"h100-nvl", "h100-94gb", "90", "NVIDIA H100 NVL", 91 * kGiB, 835 * kT, 60 * kT},
      {"h100-pcie", "", "90", "NVIDIA H100 PCIe", 77 * kGiB, 756 * kT, 51 * kT},
      {"h200", "h200-141gb", "90", "NVIDIA H200", 137 * kGiB, 989 * kT, 67 * kT},
      {"", "", "90", "NVIDIA H200 NVL", 0, 835 * kT, 60 * kT},
      {"", "", "90", "NVIDIA GH200 480GB", 0, 989 * kT, 67 * kT},
      {"b200", "b200-180gb", "100", "NVIDIA B200", 175 * kGiB, 2250 * kT, 75 * kT},
      {"rtx-4090", "rtx4090-24gb", "89", "NVIDIA GeForce RTX 4090", 21 * kGiB + 512 * kMiB, 165.2 * kT, 82.6 * kT},
      {"rtx-5090", "rtx5090-32gb", "120", "NVIDIA GeForce RTX 5090", 29 * kGiB, 209.5 * kT, 104.8 * kT},
      {"h100-sxm", "h100-80gb", "90", "NVIDIA H100 80GB HBM3", 77 * kGiB, 989 * kT, 67 * kT},
  };
  return table;
}

const Gpu* gpu_that_reports(std::string_view device) {
  if (device.find(" MIG ") != std::string_view::npos) return nullptr;
  for (const Gpu& gpu : gpus())
    if (device == gpu.reports) return &gpu;
  // "NVIDIA GeForce RTX 4090 D" differs from the GPU whose name it begins with.
  for (const Gpu& gpu : gpus())
    if (!*gpu.name && device.starts_with(gpu.reports)) return &gpu;
  return nullptr;
}

}  // namespace llmc::spec
