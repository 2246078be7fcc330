// Compares llmc's own attention with the formulas, on a simulated and on a real GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <type_traits>
#include <vector>

#include "attention_formulas.h"
#include "device/cuda/launch.h"
#include "instance.h"

namespace llmc {

// Instances from portable_attention.cmake.
LLMC_DECLARE_ATTENTION(grouped, bf16)
LLMC_DECLARE_ATTENTION(tiles, bf16)
LLMC_DECLARE_ATTENTION(odd, bf16)
LLMC_DECLARE_ATTENTION(wide, bf16)
LLMC_DECLARE_ATTENTION(widest, bf16)
LLMC_DECLARE_ATTENTION(short, bf16)
LLMC_DECLARE_ATTENTION(window, bf16)
LLMC_DECLARE_ATTENTION(window_of_one, bf16)
LLMC_DECLARE_ATTENTION(window_but_one, bf16)
LLMC_DECLARE_ATTENTION(window_of_widest, bf16)
LLMC_DECLARE_ATTENTION(capped, bf16)
LLMC_DECLARE_ATTENTION(fp16_grouped, fp16)
LLMC_DECLARE_ATTENTION(fp16_widest, fp16)
LLMC_DECLARE_ATTENTION(fp16_window, fp16)

#define LLMC_INSTANCE(name, Act)                                                                                   \
  LLMC_DECLARE_INSTANCE(attention_forward_##name, const Act*, Act*, float*, const int*, const int*)                \
  LLMC_DECLARE_INSTANCE(attention_backward_queries_##name, const Act*, const Act*, const Act*, const float*, Act*, \
                        float*, const int*, const int*)                                                            \
  LLMC_DECLARE_INSTANCE(attention_backward_keys_##name, const Act*, const Act*, const float*, const float*, Act*,  \
                        const int*, const int*)
LLMC_INSTANCE(documents, bf16)
LLMC_INSTANCE(fp16_documents, fp16)
LLMC_INSTANCE(documents_of_wide, bf16)
LLMC_INSTANCE(warpgroups_divided, bf16)
LLMC_INSTANCE(warpgroups_divided_windows, bf16)
LLMC_INSTANCE(warpgroups_broad_divided, bf16)
#undef LLMC_INSTANCE

LLMC_DECLARE_ATTENTION(warpgroups_shared, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_single, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_few, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_sliding, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_of_one, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_but_one, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_capped, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_broad, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_broad_single, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_broad_padded, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_narrow_padded, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_broad_sliding, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_broad_capped, bf16)

#define LLMC_INSTANCE(name, ...)                                                                                     \
  LLMC_DECLARE_INSTANCE(attention_backward_queries_warpgroups_rotated_##name, const bf16*, const bf16*, const bf16*, \
                        const float*, bf16*, float*, const float* __VA_ARGS__)                                       \
  LLMC_DECLARE_INSTANCE(attention_backward_keys_warpgroups_rotated_##name, const bf16*, const bf16*, const float*,   \
                        const float*, bf16*, const float* __VA_ARGS__)
LLMC_INSTANCE(shared)
LLMC_INSTANCE(sliding)
LLMC_INSTANCE(divided, , const int*, const int*)
LLMC_INSTANCE(broad)
LLMC_INSTANCE(broad_divided, , const int*, const int*)
LLMC_INSTANCE(broad_padded)
LLMC_INSTANCE(narrow_padded)

namespace {

/// Kernels of one instance with the interface of class Attention. Rows: types of the rows of documents, if it has them.
template <class Act, class... Rows>
struct Portable {
  void (*forward_kernel)(const Act*, Act*, float*, Rows...);
  void (*queries_kernel)(const Act*, const Act*, const Act*, const float*, Act*, float*, Rows...);
  void (*keys_kernel)(const Act*, const Act*, const float*, const float*, Act*, Rows...);
  AttentionShape s;
  bool warpgroups = false;
  std::tuple<Rows...> rows = {};

  /// Same as in compiler/ops/attention/attention.cpp. `parts`: slices of a wide head's columns.
  Grid grid(std::int64_t heads, std::int64_t parts) const {
    if (warpgroups) {
      const bool keys = parts == 4, broad = s.head_dim > 64;
      const unsigned tile = broad ? 16384 : 8192;
      const std::int64_t blocks = s.batch * heads * ((s.sequence + 63) / 64);
      return {static_cast<unsigned>(blocks), 128, 1, (keys && broad ? 6 : 4) * tile + (keys ? 1024 : 0)};
    }
    const bool wide = s.head_dim > 128;
    const std::int64_t rows = (wide ? 2 : 4) * (s.head_dim <= 64 ? 32 : 16);
    const std::int64_t blocks = s.batch * heads * (wide ? parts : 1) * ((s.sequence + rows - 1) / rows);
    return {static_cast<unsigned>(blocks), wide ? 64u : 128u};
  }
  void forward(Stream& stream, const Act* qkv, Act* out, float* lse) const {
    std::apply([&](Rows... r) { launch(stream, grid(s.heads, 1), forward_kernel, qkv, out, lse, r...); }, rows);
  }
  void backward(Stream& stream, const Act* dout, const Act* out, const Act* qkv, const float* lse, Act* dqkv,
                void* workspace) const {
    float* delta = static_cast<float*>(workspace);
    std::apply(
        [&](Rows... r) {
          launch(stream, grid(s.heads, 2), queries_kernel, dout, out, qkv, lse, dqkv, delta, r...);
          launch(stream, grid(s.kv_heads, 4), keys_kernel, dout, qkv, lse, delta, dqkv, r...);
        },
        rows);
  }
};

/// Same with backward kernels that rotate dq and dk back.
template <class... Rows>
struct Rotated {
  Portable<bf16, Rows...> plain;
  void (*queries_kernel)(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*, const float*, Rows...);
  void (*keys_kernel)(const bf16*, const bf16*, const float*, const float*, bf16*, const float*, Rows...);
  const float* table = nullptr;

  void forward(Stream& stream, const bf16* qkv, bf16* out, float* lse) const { plain.forward(stream, qkv, out, lse); }
  void backward(Stream& stream, const bf16* dout, const bf16* out, const bf16* qkv, const float* lse, bf16* dqkv,
                void* workspace) const {
    float* delta = static_cast<float*>(workspace);
    const AttentionShape& s = plain.s;
    std::apply(
        [&](Rows... r) {
          launch(stream, plain.grid(s.heads, 2), queries_kernel, dout, out, qkv, lse, dqkv, delta, table, r...);
          launch(stream, plain.grid(s.kv_heads, 4), keys_kernel, dout, qkv, lse, delta, dqkv, table, r...);
        },
        plain.rows);
  }
};

/// RoPE's table, with angles that turn fast enough to tell positions and elements apart.
std::vector<float> angles_of(const AttentionShape& s) {
  std::vector<float> table(static_cast<std::size_t>(s.sequence * s.head_dim));
  const std::int64_t half = s.head_dim / 2;
  for (std::int64_t position = 0; position < s.sequence; ++position)
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(position) * std::pow(100.0, -static_cast<double>(i) / static_cast<double>(half));
      const auto at = static_cast<std::size_t>(position * s.head_dim + i);
      table[at] = static_cast<float>(std::cos(angle));
      table[at + static_cast<std::size_t>(half)] = static_cast<float>(std::sin(angle));
    }
  return table;
}

/// Rotates dq and dk by the positions' angles, as the forward pass does q and k.
void rotate_gradients(AttentionRun& run, const std::vector<float>& table) {
  const AttentionShape& s = run.s;
  const auto half = static_cast<std::size_t>(s.head_dim / 2);
  for (std::int64_t row = 0; row < run.tokens; ++row) {
    const std::int64_t begin = s.documents ? run.documents.begin[static_cast<std::size_t>(row)] : 0;
    const float* angles = table.data() + (row % s.sequence - begin) * s.head_dim;
    for (std::int64_t head = 0; head < s.heads + s.kv_heads; ++head)
      for (std::size_t i = 0; i < half; ++i) {
        float* const element = run.dq_dk_dv.data() + row * s.qkv_pitch + head * s.head_dim + i;
        const float a = element[0], b = element[half];
        element[0] = a * angles[i] - b * angles[i + half];
        element[half] = b * angles[i] + a * angles[i + half];
      }
  }
}

template <class Act, class... Rows>
AttentionRun run_portable(const AttentionShape& s, Portable<Act, Rows...> kernels, float sharpness = 1) {
  return {Act{}, s, static_cast<std::size_t>(s.batch * s.heads * s.sequence) * sizeof(float),
          [&](Device&, Pieces& pieces) {
            if constexpr (sizeof...(Rows) > 0) {
              const Documents documents(s);
              kernels.rows = {pieces.put(documents.begin), pieces.put(documents.end)};
            }
            return kernels;
          },
          sharpness};
}

template <class Act, class... Rows>
void check(const AttentionShape& s, const Portable<Act, Rows...>& kernels) {
  const AttentionRun run = run_portable(s, kernels);
  expect_formulas(run, 24, std::is_same_v<Act, fp16> ? kFp16Scores : kPlainScores);
  expect_padding_untouched(run);
  EXPECT_EQ(run.dq_dk_dv, run.again);
}

template <class... Rows>
void check(const AttentionShape& s, Rotated<Rows...> kernels) {
  const std::vector<float> table = angles_of(s);
  AttentionRun run(s, static_cast<std::size_t>(s.batch * s.heads * s.sequence) * sizeof(float),
                   [&](Device&, Pieces& pieces) {
                     if constexpr (sizeof...(Rows) > 0) {
                       const Documents documents(s);
                       kernels.plain.rows = {pieces.put(documents.begin), pieces.put(documents.end)};
                     }
                     kernels.table = pieces.put(table);
                     return kernels;
                   });
  expect_padding_untouched(run);
  EXPECT_EQ(run.dq_dk_dv, run.again);
  rotate_gradients(run, table);
  expect_formulas(run, 24);
}

#define LLMC_CHECK(test, name, ...)                                                                                    \
  TEST(PortableAttention, test) {                                                                                      \
    const AttentionShape shape = {__VA_ARGS__};                                                                        \
    check(shape, Portable{attention_forward_##name, attention_backward_queries_##name, attention_backward_keys_##name, \
                          shape});                                                                                     \
  }

// Numbers as in portable_attention.cmake.
LLMC_CHECK(EightHeadsOfOneKeyHead, grouped, 2, 100, 8, 1, 64, 648, 528)
LLMC_CHECK(FourHeadsOfAKeyHeadAndThreeTiles, tiles, 1, 300, 4, 1, 32, 192, 128)
LLMC_CHECK(FourByteRowsAndOddLengths, odd, 2, 77, 6, 3, 10, 124, 66)
LLMC_CHECK(WideHeads, wide, 1, 75, 4, 2, 128, 1032, 520)
LLMC_CHECK(TheWidestHeads, widest, 1, 39, 2, 1, 256, 1032, 520)
LLMC_CHECK(TwoTokensAndEightByteRows, short, 3, 2, 2, 2, 36, 224, 80)
LLMC_CHECK(AWindow, window, 1, 150, 4, 2, 32, 264, 136, true, 45)
LLMC_CHECK(AWindowOfOneKey, window_of_one, 1, 70, 2, 1, 10, 40, 24, true, 1)
LLMC_CHECK(AWindowOfAllButOne, window_but_one, 1, 139, 2, 1, 128, 520, 264, true, 138)
LLMC_CHECK(AWindowOfTheWidestHeads, window_of_widest, 1, 60, 2, 1, 256, 1032, 520, true, 23)
LLMC_CHECK(Documents, documents, 3, 200, 4, 2, 32, 264, 136, true, 0, 0, true)
LLMC_CHECK(WindowsOfDocuments, documents_of_wide, 2, 90, 2, 1, 128, 520, 264, true, 21, 0, true)
LLMC_CHECK(ASoftCap, capped, 1, 150, 4, 2, 32, 264, 136, true, 0, 0, false, true)

LLMC_CHECK(EightHeadsInFp16, fp16_grouped, 2, 100, 8, 1, 64, 648, 528)
LLMC_CHECK(TheWidestHeadsInFp16, fp16_widest, 1, 39, 2, 1, 256, 1032, 520)
LLMC_CHECK(AWindowInFp16, fp16_window, 1, 150, 4, 2, 32, 264, 136, true, 45)
LLMC_CHECK(DocumentsInFp16, fp16_documents, 3, 200, 4, 2, 32, 264, 136, true, 0, 0, true)

#define LLMC_CHECK_WARPGROUPS(test, name, ...)                                                               \
  TEST(WarpgroupAttention, test) {                                                                           \
    const AttentionShape shape = {__VA_ARGS__};                                                              \
    check(shape, Portable{attention_forward_warpgroups_##name, attention_backward_queries_warpgroups_##name, \
                          attention_backward_keys_warpgroups_##name, shape, true});                          \
  }

LLMC_CHECK_WARPGROUPS(FourHeadsOfAKeyHeadAndAPartOfATile, shared, 2, 200, 8, 2, 64, 776, 520)
LLMC_CHECK_WARPGROUPS(OneTile, single, 1, 64, 3, 3, 64, 576, 192)
LLMC_CHECK_WARPGROUPS(FiveTokens, few, 3, 5, 4, 1, 64, 384, 256)
LLMC_CHECK_WARPGROUPS(AWindow, sliding, 1, 200, 4, 2, 64, 520, 264, true, 70)
LLMC_CHECK_WARPGROUPS(AWindowOfOneKey, of_one, 1, 70, 2, 1, 64, 264, 136, true, 1)
LLMC_CHECK_WARPGROUPS(AWindowOfAllButOne, but_one, 1, 130, 3, 3, 64, 584, 200, true, 129)
LLMC_CHECK_WARPGROUPS(Documents, divided, 3, 200, 4, 2, 64, 520, 264, true, 0, 0, true)
LLMC_CHECK_WARPGROUPS(WindowsOfDocuments, divided_windows, 2, 200, 3, 3, 64, 584, 200, true, 21, 0, true)
LLMC_CHECK_WARPGROUPS(HeadsOf128, broad, 2, 200, 4, 2, 128, 1032, 520)
LLMC_CHECK_WARPGROUPS(FiveTokensOfAHeadOf128, broad_single, 1, 5, 1, 1, 128, 384, 128)
LLMC_CHECK_WARPGROUPS(HeadsOf80, broad_padded, 1, 140, 4, 2, 80, 648, 328)
LLMC_CHECK_WARPGROUPS(HeadsOf48, narrow_padded, 2, 90, 2, 1, 48, 200, 104)
LLMC_CHECK_WARPGROUPS(AWindowOfHeadsOf128, broad_sliding, 1, 200, 2, 1, 128, 520, 264, true, 70)
LLMC_CHECK_WARPGROUPS(WindowsOfDocumentsOfHeadsOf96, broad_divided, 2, 200, 2, 1, 96, 392, 200, true, 21, 0, true)
LLMC_CHECK_WARPGROUPS(ASoftCap, capped, 1, 150, 4, 2, 64, 520, 264, true, 0, 0, false, true)
LLMC_CHECK_WARPGROUPS(ASoftCapInAWindow, broad_capped, 1, 130, 2, 1, 128, 520, 264, true, 50, 0, false, true)

#define LLMC_CHECK_ROTATED(test, name, ...)                                                                          \
  TEST(RotatedAttention, test) {                                                                                     \
    const AttentionShape shape = {__VA_ARGS__};                                                                      \
    check(shape, Rotated{Portable{attention_forward_warpgroups_##name, attention_backward_queries_warpgroups_##name, \
                                  attention_backward_keys_warpgroups_##name, shape, true},                           \
                         attention_backward_queries_warpgroups_rotated_##name,                                       \
                         attention_backward_keys_warpgroups_rotated_##name});                                        \
  }

LLMC_CHECK_ROTATED(FourHeadsOfAKeyHeadAndAPartOfATile, shared, 2, 200, 8, 2, 64, 776, 520)
LLMC_CHECK_ROTATED(AWindow, sliding, 1, 200, 4, 2, 64, 520, 264, true, 70)
LLMC_CHECK_ROTATED(PositionsBeginAnewInDocuments, divided, 3, 200, 4, 2, 64, 520, 264, true, 0, 0, true)
LLMC_CHECK_ROTATED(HeadsOf128, broad, 2, 200, 4, 2, 128, 1032, 520)
LLMC_CHECK_ROTATED(HeadsOf80, broad_padded, 1, 140, 4, 2, 80, 648, 328)
LLMC_CHECK_ROTATED(HeadsOf48, narrow_padded, 2, 90, 2, 1, 48, 200, 104)
LLMC_CHECK_ROTATED(WindowsOfDocumentsOfHeadsOf96, broad_divided, 2, 200, 2, 1, 96, 392, 200, true, 21, 0, true)

TEST(WarpgroupAttention, LargeScores) {
  const AttentionShape shape = {2, 200, 8, 2, 64, 776, 520};
  const Portable kernels{attention_forward_warpgroups_shared, attention_backward_queries_warpgroups_shared,
                         attention_backward_keys_warpgroups_shared, shape, true};
  expect_formulas(run_portable(shape, kernels, kSharp), 24, kLargeScores);
}

TEST(PortableAttention, LargeScores) {
  const AttentionShape shape = {2, 77, 6, 3, 10, 124, 66};
  const Portable kernels{attention_forward_odd, attention_backward_queries_odd, attention_backward_keys_odd, shape};
  expect_formulas(run_portable(shape, kernels, kSharp), 24, kLargeScores);
}

}  // namespace
}  // namespace llmc
