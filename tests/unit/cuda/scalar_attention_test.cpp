// Compares llmc's own attention in fp32 with the formulas, on a simulated and on a real GPU.
#include <gtest/gtest.h>

#include <tuple>

#include "attention_formulas.h"
#include "device/cuda/launch.h"
#include "instance.h"

namespace llmc {

// Instances from portable_attention.cmake.
#define LLMC_INSTANCE(name)                                                                                            \
  LLMC_DECLARE_INSTANCE(attention_forward_scalar_##name, const float*, float*, float*)                                 \
  LLMC_DECLARE_INSTANCE(attention_backward_queries_scalar_##name, const float*, const float*, const float*,            \
                        const float*, float*, float*)                                                                  \
  LLMC_DECLARE_INSTANCE(attention_backward_keys_scalar_##name, const float*, const float*, const float*, const float*, \
                        float*)
LLMC_INSTANCE(grouped)
LLMC_INSTANCE(odd)
LLMC_INSTANCE(wide)
LLMC_INSTANCE(widest)
LLMC_INSTANCE(short)
LLMC_INSTANCE(window)
LLMC_INSTANCE(window_of_one)
LLMC_INSTANCE(window_of_widest)
#undef LLMC_INSTANCE

#define LLMC_INSTANCE(name)                                                                                            \
  LLMC_DECLARE_INSTANCE(attention_forward_scalar_##name, const float*, float*, float*, const int*, const int*)         \
  LLMC_DECLARE_INSTANCE(attention_backward_queries_scalar_##name, const float*, const float*, const float*,            \
                        const float*, float*, float*, const int*, const int*)                                          \
  LLMC_DECLARE_INSTANCE(attention_backward_keys_scalar_##name, const float*, const float*, const float*, const float*, \
                        float*, const int*, const int*)
LLMC_INSTANCE(documents)
LLMC_INSTANCE(documents_of_widest)
#undef LLMC_INSTANCE

namespace {

/// Kernels of one instance with the interface of class Attention. Rows: types of the rows of documents, if it has them.
template <class... Rows>
struct Scalar {
  void (*forward_kernel)(const float*, float*, float*, Rows...);
  void (*queries_kernel)(const float*, const float*, const float*, const float*, float*, float*, Rows...);
  void (*keys_kernel)(const float*, const float*, const float*, const float*, float*, Rows...);
  AttentionShape s;
  std::tuple<Rows...> rows = {};

  /// Same as in compiler/ops/attention/attention.cpp.
  Grid grid(std::int64_t heads) const {
    const std::int64_t rows = s.head_dim <= 64 ? 64 : s.head_dim <= 128 ? 32 : 8;
    return {static_cast<unsigned>(s.batch * heads * ((s.sequence + rows - 1) / rows)), s.head_dim > 128 ? 64u : 128u};
  }
  void forward(Stream& stream, const float* qkv, float* out, float* lse) const {
    std::apply([&](Rows... r) { launch(stream, grid(s.heads), forward_kernel, qkv, out, lse, r...); }, rows);
  }
  void backward(Stream& stream, const float* dout, const float* out, const float* qkv, const float* lse, float* dqkv,
                void* workspace) const {
    float* delta = static_cast<float*>(workspace);
    std::apply(
        [&](Rows... r) {
          launch(stream, grid(s.heads), queries_kernel, dout, out, qkv, lse, dqkv, delta, r...);
          launch(stream, grid(s.kv_heads), keys_kernel, dout, qkv, lse, delta, dqkv, r...);
        },
        rows);
  }
};

template <class... Rows>
AttentionRun run_scalar(const AttentionShape& s, Scalar<Rows...> kernels, float sharpness = 1) {
  return {float{}, s, static_cast<std::size_t>(s.batch * s.heads * s.sequence) * sizeof(float),
          [&](Device&, Pieces& pieces) {
            if constexpr (sizeof...(Rows) > 0) {
              const Documents documents(s);
              kernels.rows = {pieces.put(documents.begin), pieces.put(documents.end)};
            }
            return kernels;
          },
          sharpness};
}

#define LLMC_KERNELS(name) \
  attention_forward_scalar_##name, attention_backward_queries_scalar_##name, attention_backward_keys_scalar_##name

#define LLMC_CHECK(test, name, ...)                                                \
  TEST(ScalarAttention, test) {                                                    \
    const AttentionShape shape = {__VA_ARGS__};                                    \
    const AttentionRun run = run_scalar(shape, Scalar{LLMC_KERNELS(name), shape}); \
    expect_formulas(run, 24, kFp32);                                               \
    expect_padding_untouched(run);                                                 \
    EXPECT_EQ(run.dq_dk_dv, run.again);                                            \
  }

// Numbers as in portable_attention.cmake.
LLMC_CHECK(EightHeadsOfOneKeyHead, grouped, 2, 100, 8, 1, 64, 648, 528)
LLMC_CHECK(EightByteRowsAndOddLengths, odd, 2, 77, 6, 3, 10, 124, 66)
LLMC_CHECK(WideHeads, wide, 1, 75, 4, 2, 128, 1032, 520)
LLMC_CHECK(TheWidestHeads, widest, 1, 39, 2, 1, 256, 1032, 520)
LLMC_CHECK(TwoTokens, short, 3, 2, 2, 2, 36, 224, 80)
LLMC_CHECK(AWindow, window, 1, 150, 4, 2, 32, 264, 136, true, 45)
LLMC_CHECK(AWindowOfOneKey, window_of_one, 1, 70, 2, 1, 10, 40, 24, true, 1)
LLMC_CHECK(AWindowOfTheWidestHeads, window_of_widest, 1, 60, 2, 1, 256, 1032, 520, true, 23)
LLMC_CHECK(Documents, documents, 3, 150, 4, 2, 32, 264, 136, true, 0, 0, true)
LLMC_CHECK(WindowsOfTheWidestHeadsOfDocuments, documents_of_widest, 2, 60, 2, 1, 256, 1032, 520, true, 21, 0, true)

TEST(ScalarAttention, LargeScores) {
  const AttentionShape shape = {2, 77, 6, 3, 10, 124, 66};
  expect_formulas(run_scalar(shape, Scalar{LLMC_KERNELS(odd), shape}, kSharp), 24, kLargeFp32);
}

}  // namespace
}  // namespace llmc
