// Queries oneDNN's capabilities on this machine: a run that needs more is refused before it starts.
#pragma once

#include <string>

namespace llmc {

enum class Bf16Support {
  widened,   // correct, but slower than fp32: no bf16 GEMM, operands are widened to fp32 (widened.h)
  emulated,  // correct, but slower than fp32 (avx512 without avx512_bf16)
  native,    // avx512_bf16 or AMX
};

/// For the instruction set that oneDNN uses in this process; respects ONEDNN_MAX_CPU_ISA.
Bf16Support bf16_support();

/// "oneDNN 2.6.3", for messages.
std::string math_library_version();

}  // namespace llmc
