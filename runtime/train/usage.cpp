#include "train/usage.h"

#include "spec/gpus.h"

namespace llmc {

std::optional<double> peak_flops(std::string_view device, DType compute, bool tf32) {
  const spec::Gpu* gpu = spec::gpu_that_reports(device.substr(0, device.find(" (sm_")));
  if (!gpu) return std::nullopt;
  return compute != DType::f32 ? gpu->bf16 : tf32 ? gpu->tf32() : gpu->fp32;  // fp16 has the peak of bf16
}

double utilisation(double flops_per_token, double tokens_per_second, int devices, double peak) {
  return flops_per_token * tokens_per_second / (static_cast<double>(devices) * peak);
}

}  // namespace llmc
