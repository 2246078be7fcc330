#include "device/cpu/instructions.h"

#include <array>

#include "device/cpu/arch.h"
#include "device/device.h"
#include "error.h"

namespace llmc {
namespace {

struct Known {
  std::uint64_t bit;
  const char* name;
  bool (*here)();
};

#define LLMC_ASKED(bit, name)                                   \
  Known {                                                       \
    bit, name, [] { return __builtin_cpu_supports(name) != 0; } \
  }
constexpr std::array kKnown = {
    LLMC_ASKED(kSse3, "sse3"),
    LLMC_ASKED(kSsse3, "ssse3"),
    LLMC_ASKED(kSse41, "sse4.1"),
    LLMC_ASKED(kSse42, "sse4.2"),
    LLMC_ASKED(kPopcnt, "popcnt"),
    LLMC_ASKED(kAvx, "avx"),
    LLMC_ASKED(kAvx2, "avx2"),
    LLMC_ASKED(kFma, "fma"),
    LLMC_ASKED(kBmi, "bmi"),
    LLMC_ASKED(kBmi2, "bmi2"),
    LLMC_ASKED(kLzcnt, "lzcnt"),
    LLMC_ASKED(kMovbe, "movbe"),
    LLMC_ASKED(kF16c, "f16c"),
    LLMC_ASKED(kFma4, "fma4"),
    LLMC_ASKED(kXop, "xop"),
    LLMC_ASKED(kTbm, "tbm"),
    LLMC_ASKED(kAvx512f, "avx512f"),
    LLMC_ASKED(kAvx512cd, "avx512cd"),
    LLMC_ASKED(kAvx512dq, "avx512dq"),
    LLMC_ASKED(kAvx512bw, "avx512bw"),
    LLMC_ASKED(kAvx512vl, "avx512vl"),
    LLMC_ASKED(kAvx512ifma, "avx512ifma"),
    LLMC_ASKED(kAvx512vbmi, "avx512vbmi"),
    LLMC_ASKED(kAvx512vbmi2, "avx512vbmi2"),
    LLMC_ASKED(kAvx512vnni, "avx512vnni"),
    LLMC_ASKED(kAvx512bitalg, "avx512bitalg"),
    LLMC_ASKED(kAvx512vpopcntdq, "avx512vpopcntdq"),
    LLMC_ASKED(kAvx512bf16, "avx512bf16"),
    Known{kAvx512fp16, "avx512fp16", cpu_has_fp16},
    Known{kAmxTile, "amx-tile", cpu_has_tiles},
    Known{kAmxBf16, "amx-bf16", cpu_has_tiles},
};
#undef LLMC_ASKED

}  // namespace

std::string missing_instructions(std::uint64_t wanted) {
  std::string missing;
  for (const auto& [bit, name, here] : kKnown)
    if ((wanted & bit) != 0 && !here()) missing += (missing.empty() ? "" : ", ") + std::string(name);
  return missing;
}

void Device::check_instructions(const char* arch, std::uint64_t instructions) {
  const std::string missing = missing_instructions(instructions);
  if (missing.empty()) return;
  const std::string mine = machine_arch();
  throw Failure(Exit::toolchain, "this trainer is built for " + std::string(arch) + ", but this processor (" + mine +
                                     ") has no " + missing + ". Compile it with target.arch: " + mine +
                                     ", or run it on a machine that has them");
}

}  // namespace llmc
