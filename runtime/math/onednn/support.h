// What oneDNN can do on this machine, asked of the library: a run that needs more is refused before it starts.
#pragma once

#include <string>

namespace llmc {

enum class Bf16Support {
  widened,   // right, but slower than fp32: no bf16 product, fp32 operands are made of them (widened.h)
  emulated,  // right, but slower than fp32 (avx512 without avx512_bf16)
  native,    // avx512_bf16 or AMX
};

/// As of the instruction set that oneDNN uses in this process (ONEDNN_MAX_CPU_ISA included).
Bf16Support bf16_support();

/// "oneDNN 2.6.3", for messages.
std::string math_library_version();

}  // namespace llmc
