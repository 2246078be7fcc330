// What oneDNN can do on this machine, asked of the library: a run that needs more is refused before it starts.
#pragma once

#include <string>

namespace llmc {

enum class Bf16Support {
  none,      // no bf16 product: compute must be fp32
  emulated,  // right, but slower than fp32 (avx512 without avx512_bf16)
  native,    // avx512_bf16 or AMX
};

/// As of the instruction set that oneDNN uses in this process (ONEDNN_MAX_CPU_ISA included).
Bf16Support bf16_support();

/// "oneDNN 2.6.3", for messages.
std::string math_library_version();

}  // namespace llmc
