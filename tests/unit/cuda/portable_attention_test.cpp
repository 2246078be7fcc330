// llmc's own attention against the formulas, on a simulated GPU and on a real one.
#include <gtest/gtest.h>

#include "attention_formulas.h"
#include "device/cuda/launch.h"

namespace llmc {

// portable_attention.cmake makes them.
#define LLMC_INSTANCE(name)                                                                                   \
  void attention_forward_##name(const bf16*, bf16*, float*);                                                  \
  void attention_backward_queries_##name(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*); \
  void attention_backward_keys_##name(const bf16*, const bf16*, const float*, const float*, bf16*);
LLMC_INSTANCE(grouped)
LLMC_INSTANCE(odd)
LLMC_INSTANCE(wide)
LLMC_INSTANCE(widest)
LLMC_INSTANCE(short)

namespace {

/// The kernels of one instance in class Attention's place. Grids are small: a block then has more than one task.
struct Portable {
  void (*forward_kernel)(const bf16*, bf16*, float*);
  void (*queries_kernel)(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*);
  void (*keys_kernel)(const bf16*, const bf16*, const float*, const float*, bf16*);
  unsigned blocks, lanes, lanes_of_keys;

  void forward(Stream& stream, const bf16* qkv, bf16* out, float* lse) const {
    launch(stream, Grid{blocks, lanes}, forward_kernel, qkv, out, lse);
  }
  void backward(Stream& stream, const bf16* dout, const bf16* out, const bf16* qkv, const float* lse, bf16* dqkv,
                void* workspace) const {
    float* delta = static_cast<float*>(workspace);
    launch(stream, Grid{blocks, lanes}, queries_kernel, dout, out, qkv, lse, dqkv, delta);
    launch(stream, Grid{blocks, lanes_of_keys}, keys_kernel, dout, qkv, lse, delta, dqkv);
  }
};

AttentionRun run_portable(const AttentionShape& s, const Portable& kernels, float sharpness = 1) {
  return {s, static_cast<std::size_t>(s.batch * s.heads * s.sequence) * sizeof(float),
          [&](Device&, Pieces&) { return kernels; }, sharpness};
}

void check(const AttentionShape& s, const Portable& kernels) {
  const AttentionRun run = run_portable(s, kernels);
  expect_formulas(run, 24);
  expect_padding_untouched(run);
  EXPECT_EQ(run.dq_dk_dv, run.again);
  Portable wide = kernels;  // any grid gives the same bits
  wide.blocks = 64;
  EXPECT_EQ(run_portable(s, wide).dq_dk_dv, run.dq_dk_dv);
}

#define LLMC_CHECK(test, name, lanes, lanes_of_keys, ...)                                                              \
  TEST(PortableAttention, test) {                                                                                      \
    check({__VA_ARGS__}, {attention_forward_##name, attention_backward_queries_##name, attention_backward_keys_##name, \
                          3, lanes, lanes_of_keys});                                                                   \
  }

// The numbers of portable_attention.cmake.
LLMC_CHECK(EightHeadsOfOneKeyHead, grouped, 128, 128, 2, 100, 8, 1, 64, 648, 528)
LLMC_CHECK(FourByteRowsAndOddLengths, odd, 128, 128, 2, 77, 6, 3, 10, 124, 66)
LLMC_CHECK(WideHeads, wide, 128, 128, 1, 75, 4, 2, 128, 1032, 520)
LLMC_CHECK(TheWidestHeads, widest, 64, 32, 1, 39, 2, 1, 256, 1032, 520)
LLMC_CHECK(TwoTokensAndEightByteRows, short, 128, 128, 3, 2, 2, 2, 36, 224, 80)

TEST(PortableAttention, LargeScores) {
  const Portable kernels = {attention_forward_odd, attention_backward_queries_odd, attention_backward_keys_odd, 3, 128, 128};
  expect_formulas(run_portable({2, 77, 6, 3, 10, 124, 66}, kernels, kSharp), 24, kLargeScores);
}

}  // namespace
}  // namespace llmc
