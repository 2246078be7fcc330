// Table of g++'s -march names for x86-64 processors and the instructions that code for each may use.
#pragma once

#include <array>
#include <string_view>

namespace llmc {

/// Instructions beyond the x86-64-v4 level. g++ 12 cannot be queried for AMX by name.
enum Extension : unsigned { kNone = 0, kVnni = 1, kBf16 = 2, kFp16 = 4, kAmx = 8, kVbmi2 = 16 };

struct CpuArch {
  std::string_view name;
  int level;            // x86-64-vN level that it includes
  unsigned extensions;  // of Extension
};

/// Names that g++ 12 has, newest first: machine_arch() takes the first that fits.
inline constexpr std::array kProposedArchs = {
    CpuArch{"sapphirerapids", 4, kVnni | kBf16 | kFp16 | kAmx | kVbmi2},
    CpuArch{"cooperlake", 4, kVnni | kBf16},
    CpuArch{"icelake-server", 4, kVnni | kVbmi2},
    CpuArch{"cascadelake", 4, kVnni},
    CpuArch{"skylake-avx512", 4, kNone},
    CpuArch{"x86-64-v4", 4, kNone},
    CpuArch{"haswell", 3, kNone},
    CpuArch{"x86-64-v3", 3, kNone},
    CpuArch{"x86-64-v2", 2, kNone},
    CpuArch{"x86-64", 1, kNone},
};

/// Never proposed: names only newer compilers have, or equivalent to one above.
inline constexpr std::array kOtherArchs = {
    CpuArch{"emeraldrapids", 4, kVnni | kBf16 | kFp16 | kAmx | kVbmi2},
    CpuArch{"graniterapids", 4, kVnni | kBf16 | kFp16 | kAmx | kVbmi2},
    CpuArch{"rocketlake", 4, kVnni | kVbmi2},
    CpuArch{"tigerlake", 4, kVnni | kVbmi2},
    CpuArch{"icelake-client", 4, kVnni | kVbmi2},
    CpuArch{"alderlake", 3, kNone},
    CpuArch{"skylake", 3, kNone},
    CpuArch{"broadwell", 3, kNone},
    CpuArch{"znver5", 4, kVnni | kBf16 | kVbmi2},
    CpuArch{"znver4", 4, kVnni | kBf16 | kVbmi2},
    CpuArch{"znver3", 3, kNone},
    CpuArch{"znver2", 3, kNone},
    CpuArch{"znver1", 3, kNone},
};

}  // namespace llmc
