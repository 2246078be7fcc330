#include "device/cpu/arch.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "device/cpu/arch_names.h"
#include "error.h"

namespace llmc {
namespace {

int level() {
  if (__builtin_cpu_supports("x86-64-v4")) return 4;
  if (__builtin_cpu_supports("x86-64-v3")) return 3;
  return __builtin_cpu_supports("x86-64-v2") ? 2 : 1;
}

/// Returns whether the system saves tile registers: bits 17 and 18 of XCR0. Linux does from 5.16 on.
bool system_has_tiles() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kOsXsaveBit = 1u << 27, kTileState = 3u << 17;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & kOsXsaveBit)) return false;
  asm("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return (eax & kTileState) == kTileState;
}

/// EDX of CPUID leaf 7; 0 if there is none.
unsigned newer_features() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) ? edx : 0;
}

unsigned extensions() {
  unsigned found = kNone;
  if (__builtin_cpu_supports("avx512vnni")) found |= kVnni;
  if (__builtin_cpu_supports("avx512vbmi2")) found |= kVbmi2;
  if (__builtin_cpu_supports("avx512bf16")) found |= kBf16;
  if (cpu_has_fp16()) found |= kFp16;
  if (cpu_has_tiles()) found |= kAmx;
  return found;
}

bool fits(const CpuArch& arch) { return arch.level <= level() && (arch.extensions & ~extensions()) == 0; }

const CpuArch* find(std::string_view name) {
  for (const CpuArch& arch : kProposedArchs)
    if (arch.name == name) return &arch;
  for (const CpuArch& arch : kOtherArchs)
    if (arch.name == name) return &arch;
  return nullptr;
}

}  // namespace

bool cpu_has_fp16() {
  constexpr unsigned kFp16Bit = 1u << 23;
  return (newer_features() & kFp16Bit) != 0 && __builtin_cpu_supports("avx512f");
}

bool cpu_has_tiles() {
  constexpr unsigned kTileBits = 1u << 22 | 1u << 24;  // AMX-BF16, AMX-TILE
  return (newer_features() & kTileBits) == kTileBits && system_has_tiles();
}

std::string machine_arch() {
  for (const CpuArch& arch : kProposedArchs)
    if (fits(arch)) return std::string(arch.name);
  return "x86-64";
}

bool arch_has_tiles(std::string_view arch) {
  const CpuArch* known = find(arch);
  return known != nullptr && (known->extensions & kAmx) != 0;
}

bool arch_has_avx512(std::string_view arch) {
  const CpuArch* known = find(arch);
  return known != nullptr && known->level == 4;
}

void require_tiles() {
  constexpr long kTileData = 18;  // number of the state component in XCR0
  if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, kTileData) != 0)
    throw Failure(Exit::toolchain,
                  std::string("the system refuses AMX's tile registers (arch_prctl(ARCH_REQ_XCOMP_PERM, 18): ") +
                      std::strerror(errno) +
                      "). Set target.arch to cooperlake, with precision.matmul: auto, and recompile");
}

}  // namespace llmc
