#include "device/cuda/arch.h"

#include <charconv>
#include <string>

#include "device/cuda/check.h"
#include "error.h"

namespace llmc {
namespace {

bool one_runs_on(std::string_view arch, int capability) {
  int compiled = 0;
  const auto [end, error] = std::from_chars(arch.data(), arch.data() + arch.size(), compiled);
  const std::string_view suffix(end, static_cast<std::size_t>(arch.data() + arch.size() - end));
  if (error != std::errc() || compiled < 10) return false;
  if (suffix == "a") return compiled == capability;
  if (!suffix.empty() && suffix != "f") return false;
  return compiled / 10 == capability / 10 && compiled <= capability;
}

}  // namespace

bool arch_runs_on(std::string_view archs, int capability) {
  while (!archs.empty()) {
    const std::size_t comma = archs.find(',');
    if (one_runs_on(archs.substr(0, comma), capability)) return true;
    archs = comma == std::string_view::npos ? std::string_view() : archs.substr(comma + 1);
  }
  return false;
}

void require_arch(std::string_view archs) {
  int index = 0, major = 0, minor = 0;
  check(cudaGetDevice(&index), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index), "cudaDeviceGetAttribute");
  if (arch_runs_on(archs, 10 * major + minor)) return;
  const std::string capability = std::to_string(10 * major + minor);
  throw Failure(Exit::toolchain, "this trainer's kernels are compiled for sm_" + std::string(archs) + ", but GPU " +
                                     std::to_string(index) + " is sm_" + capability + "; add \"" + capability +
                                     "\" to target.arch and recompile");
}

}  // namespace llmc
