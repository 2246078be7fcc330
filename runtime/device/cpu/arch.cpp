#include "device/cpu/arch.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "error.h"

namespace llmc {
namespace {

/// What code for an arch may use beyond the x86-64-v4 level. g++ 12 cannot be asked about AMX by name.
enum Extension : unsigned { kNone = 0, kVnni = 1, kBf16 = 2, kFp16 = 4, kAmx = 8, kVbmi2 = 16 };

struct Arch {
  std::string_view name;
  int level;            // the x86-64-vN that it includes
  unsigned extensions;  // of Extension
};

// Newest first among the names that g++ 12 has: machine_arch() takes the first that fits.
constexpr std::array kNamed = {
    Arch{"sapphirerapids", 4, kVnni | kBf16 | kFp16 | kAmx | kVbmi2},
    Arch{"cooperlake", 4, kVnni | kBf16},
    Arch{"icelake-server", 4, kVnni | kVbmi2},
    Arch{"cascadelake", 4, kVnni},
    Arch{"skylake-avx512", 4, kNone},
    Arch{"x86-64-v4", 4, kNone},
    Arch{"haswell", 3, kNone},
    Arch{"x86-64-v3", 3, kNone},
    Arch{"x86-64-v2", 2, kNone},
    Arch{"x86-64", 1, kNone},
};

// Known, but never proposed: names that newer compilers have, or that only say another maker.
constexpr std::array kOthers = {
    Arch{"graniterapids", 4, kVnni | kBf16 | kFp16 | kAmx | kVbmi2},
    Arch{"emeraldrapids", 4, kVnni | kBf16 | kFp16 | kAmx | kVbmi2},
    Arch{"znver5", 4, kVnni | kBf16 | kVbmi2},
    Arch{"znver4", 4, kVnni | kBf16 | kVbmi2},
    Arch{"znver3", 3, kNone},
    Arch{"znver2", 3, kNone},
    Arch{"znver1", 3, kNone},
    Arch{"skylake", 3, kNone},
    Arch{"broadwell", 3, kNone},
};

int level() {
  if (__builtin_cpu_supports("x86-64-v4")) return 4;
  if (__builtin_cpu_supports("x86-64-v3")) return 3;
  return __builtin_cpu_supports("x86-64-v2") ? 2 : 1;
}

/// Whether the system saves tile registers: bits 17 and 18 of XCR0. Linux does from 5.16 on.
bool system_has_tiles() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kOsXsaveBit = 1u << 27, kTileState = 3u << 17;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & kOsXsaveBit)) return false;
  asm("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return (eax & kTileState) == kTileState;
}

/// EDX of the processor's features that are not in its first list; 0 where there is no second one.
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

bool fits(const Arch& arch) { return arch.level <= level() && (arch.extensions & ~extensions()) == 0; }

const Arch* find(std::string_view name) {
  for (const Arch& arch : kNamed)
    if (arch.name == name) return &arch;
  for (const Arch& arch : kOthers)
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
  for (const Arch& arch : kNamed)
    if (fits(arch)) return std::string(arch.name);
  return "x86-64";
}

bool arch_is_known(std::string_view arch) { return arch == "native" || find(arch) != nullptr; }

bool cpu_supports(std::string_view arch) {
  if (arch == "native") return true;
  const Arch* known = find(arch);
  return known != nullptr && fits(*known);
}

bool arch_has_tiles(std::string_view arch) {
  const Arch* known = find(arch);
  return known != nullptr && (known->extensions & kAmx) != 0;
}

void require_tiles() {
  constexpr long kTileData = 18;  // the state's number in XCR0
  if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, kTileData) != 0)
    throw Failure(Exit::toolchain,
                  std::string("arch_prctl(ARCH_REQ_XCOMP_PERM, 18): the system refuses AMX's tile registers (") +
                      std::strerror(errno) +
                      "); set target.arch to cooperlake, with precision.matmul: auto, and compile again");
}

}  // namespace llmc
