#include "train/usage.h"

#include <unistd.h>

#include <fstream>

namespace llmc {
namespace {

struct Peak {
  std::string_view name;  // what CUDA calls the device, or how that begins
  double bf16, fp32;      // TFLOP/s: dense tensor cores; multiply-adds outside of them
};

/// NVIDIA's data sheets, without sparsity. A longer name stands before what it begins with.
constexpr Peak kPeaks[] = {{"NVIDIA A100", 312, 19.5},      {"NVIDIA H100 80GB HBM3", 989, 67},
                           {"NVIDIA H100 PCIe", 756, 51},   {"NVIDIA H100 NVL", 835, 60},
                           {"NVIDIA H200 NVL", 835, 60},    {"NVIDIA H200", 989, 67},
                           {"NVIDIA GH200 480GB", 989, 67}, {"NVIDIA B200", 2250, 75}};

}  // namespace

std::optional<double> peak_flops(std::string_view device, DType compute) {
  const std::string_view name = device.substr(0, device.find(" (sm_"));
  if (name.find(" MIG ") != std::string_view::npos) return std::nullopt;
  for (const Peak& peak : kPeaks)
    if (name.starts_with(peak.name)) return (compute == DType::bf16 ? peak.bf16 : peak.fp32) * 1e12;
  return std::nullopt;
}

double utilisation(double flops_per_token, double tokens_per_second, int devices, double peak) {
  return flops_per_token * tokens_per_second / (static_cast<double>(devices) * peak);
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  return file >> total >> resident ? resident * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace llmc
