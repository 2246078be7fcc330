// Records the instruction sets that a source was compiled for as a number in its object, so that a trainer can check
// the processor before its first kernel.
#pragma once

#include <cstdint>

namespace llmc {

/// Instruction sets that compilers use by themselves, and AMX, which kernels use explicitly. One bit each.
enum Instructions : std::uint64_t {
  kSse3 = 1u << 0,
  kSsse3 = 1u << 1,
  kSse41 = 1u << 2,
  kSse42 = 1u << 3,
  kPopcnt = 1u << 4,
  kAvx = 1u << 5,
  kAvx2 = 1u << 6,
  kFma = 1u << 7,
  kBmi = 1u << 8,
  kBmi2 = 1u << 9,
  kLzcnt = 1u << 10,
  kMovbe = 1u << 11,
  kF16c = 1u << 12,
  kFma4 = 1u << 13,
  kXop = 1u << 14,
  kTbm = 1u << 15,
  kAvx512f = 1u << 16,
  kAvx512cd = 1u << 17,
  kAvx512dq = 1u << 18,
  kAvx512bw = 1u << 19,
  kAvx512vl = 1u << 20,
  kAvx512ifma = 1u << 21,
  kAvx512vbmi = 1u << 22,
  kAvx512vbmi2 = 1u << 23,
  kAvx512vnni = 1u << 24,
  kAvx512bitalg = 1u << 25,
  kAvx512vpopcntdq = 1u << 26,
  kAvx512bf16 = 1u << 27,
  kAvx512fp16 = 1u << 28,
  kAmxTile = 1u << 29,
  kAmxBf16 = 1u << 30,
};

/// Instruction sets of the including source. Static, so that each source has its own constant.
static constexpr std::uint64_t kInstructionsOfSource = 0
#ifdef __SSE3__
                                                       | kSse3
#endif
#ifdef __SSSE3__
                                                       | kSsse3
#endif
#ifdef __SSE4_1__
                                                       | kSse41
#endif
#ifdef __SSE4_2__
                                                       | kSse42
#endif
#ifdef __POPCNT__
                                                       | kPopcnt
#endif
#ifdef __AVX__
                                                       | kAvx
#endif
#ifdef __AVX2__
                                                       | kAvx2
#endif
#ifdef __FMA__
                                                       | kFma
#endif
#ifdef __BMI__
                                                       | kBmi
#endif
#ifdef __BMI2__
                                                       | kBmi2
#endif
#ifdef __LZCNT__
                                                       | kLzcnt
#endif
#ifdef __MOVBE__
                                                       | kMovbe
#endif
#ifdef __F16C__
                                                       | kF16c
#endif
#ifdef __FMA4__
                                                       | kFma4
#endif
#ifdef __XOP__
                                                       | kXop
#endif
#ifdef __TBM__
                                                       | kTbm
#endif
#ifdef __AVX512F__
                                                       | kAvx512f
#endif
#ifdef __AVX512CD__
                                                       | kAvx512cd
#endif
#ifdef __AVX512DQ__
                                                       | kAvx512dq
#endif
#ifdef __AVX512BW__
                                                       | kAvx512bw
#endif
#ifdef __AVX512VL__
                                                       | kAvx512vl
#endif
#ifdef __AVX512IFMA__
                                                       | kAvx512ifma
#endif
#ifdef __AVX512VBMI__
                                                       | kAvx512vbmi
#endif
#ifdef __AVX512VBMI2__
                                                       | kAvx512vbmi2
#endif
#ifdef __AVX512VNNI__
                                                       | kAvx512vnni
#endif
#ifdef __AVX512BITALG__
                                                       | kAvx512bitalg
#endif
#ifdef __AVX512VPOPCNTDQ__
                                                       | kAvx512vpopcntdq
#endif
#ifdef __AVX512BF16__
                                                       | kAvx512bf16
#endif
#ifdef __AVX512FP16__
                                                       | kAvx512fp16
#endif
#ifdef __AMX_TILE__
                                                       | kAmxTile
#endif
#ifdef __AMX_BF16__
                                                       | kAmxBf16
#endif
    ;

}  // namespace llmc
