#include "math/onednn/support.h"

#include <oneapi/dnnl/dnnl.hpp>

#include "math/libraries.h"

namespace llmc {

namespace {

/// oneDNN's values are bit sets: a larger instruction set contains the bits of those that it extends.
bool has(dnnl::cpu_isa wanted) {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
}

}  // namespace

Bf16Support bf16_support() {
  if (has(dnnl::cpu_isa::avx512_core_bf16)) return Bf16Support::native;
  return has(dnnl::cpu_isa::avx512_core) ? Bf16Support::emulated : Bf16Support::widened;
}

std::string math_library_version() {
  const dnnl_version_t* version = dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

std::vector<std::string> library_versions() { return {math_library_version()}; }

}  // namespace llmc
