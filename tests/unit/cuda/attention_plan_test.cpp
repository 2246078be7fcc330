// What the compiler knows of attention on CUDA without a toolkit: its workspace, its slices, what is refused.
#include <gtest/gtest.h>

#include "math/attention.h"

namespace llmc {
namespace {

AttentionShape llama(std::int64_t batch, std::int64_t sequence, bool deterministic) {
  return {.batch = batch, .sequence = sequence, .heads = 32, .kv_heads = 8, .head_dim = 64, .qkv_pitch = 3072,
          .out_pitch = 2048, .deterministic = deterministic};
}

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(AttentionPlan, OneSequenceByHand) {
  // dS 32 * 2048 * 2048 * 2 = 256 MiB; dq, dk, dv of 32 heads 3 * 32 * 2048 * 64 * 4 = 48 MiB; sums 32 * 2048 * 8 = 0.5 MiB.
  EXPECT_EQ(attention_slice_bytes(llama(16, 2048, true), {1, 8}), (256 + 48 + 4) * kMiB + kMiB / 2);
  EXPECT_EQ(attention_slice_bytes(llama(16, 2048, false), {1, 8}), (48 + 4) * kMiB + kMiB / 2);
}

TEST(AttentionPlan, MoreSequencesTakeProportionallyMore) {
  const AttentionShape shape = llama(16, 2048, true);
  const std::size_t fixed = 4 * kMiB;
  EXPECT_EQ(attention_slice_bytes(shape, {4, 8}) - fixed, 4 * (attention_slice_bytes(shape, {1, 8}) - fixed));
  EXPECT_EQ(attention_slice_bytes(shape, {1, 8}) - fixed, 8 * (attention_slice_bytes(shape, {1, 1}) - fixed));
}

TEST(AttentionPlan, HeadsThatShareNoKeysNeedNoSums) {
  AttentionShape shape = llama(1, 2048, false);
  shape.kv_heads = 32;
  EXPECT_EQ(attention_slice_bytes(shape, {1, 32}), (16 + 4) * kMiB + kMiB / 2);
}

TEST(AttentionPlan, OddLengthsAreRoundedUp) {
  AttentionShape odd = llama(1, 1921, true), even = llama(1, 2048, true);
  odd.head_dim = 40;
  EXPECT_EQ(attention_workspace_bytes(odd), attention_workspace_bytes(even));
  odd.sequence = 1920;
  EXPECT_LT(attention_workspace_bytes(odd), attention_workspace_bytes(even));
}

TEST(AttentionPlan, TheReferenceRunStaysWithinALimit) {
  const AttentionShape shape = llama(16, 2048, true);
  const AttentionSlice slice = attention_slice(shape);
  EXPECT_EQ(slice.batch, 2);
  EXPECT_EQ(slice.kv_heads, 8);
  EXPECT_LE(attention_workspace_bytes(shape), kAttentionWorkspaceLimit);
  EXPECT_GT(attention_slice_bytes(shape, {4, 8}), kAttentionWorkspaceLimit);
  static_assert(attention_workspace_bytes({1, 256, 8, 4, 32, 512, 256, true}) > 0, "usable in constants");
}

TEST(AttentionPlan, ASliceDividesTheBatch) {
  for (std::int64_t batch = 1; batch <= 24; ++batch) {
    const AttentionShape shape = llama(batch, 2048, true);
    const AttentionSlice slice = attention_slice(shape);
    EXPECT_EQ(batch % slice.batch, 0) << batch;
    EXPECT_LE(slice.batch, 3) << batch;
    EXPECT_LE(attention_workspace_bytes(shape), kAttentionWorkspaceLimit) << batch;
  }
}

TEST(AttentionPlan, ALongSequenceIsCutByHeads) {
  // 4 * 8192 * 8192 * 2 bytes are 512 MiB: one group of four heads fits, two do not.
  const AttentionSlice slice = attention_slice(llama(2, 8192, true));
  EXPECT_EQ(slice.batch, 1);
  EXPECT_EQ(slice.kv_heads, 1);
  // One group of 32768 is 8 GiB: it is planned, not hidden.
  EXPECT_GT(attention_workspace_bytes(llama(1, 32768, true)), std::size_t{8} << 30);
}

TEST(AttentionPlan, SupportedShapesAreNotRefused) {
  for (const int capability : {80, 86, 90, 100, 120}) {
    EXPECT_EQ(attention_refusal(llama(4, 2048, true), DType::bf16, capability), "") << capability;
    AttentionShape shape = llama(4, 77, true);
    shape.head_dim = 128;
    EXPECT_EQ(attention_refusal(shape, DType::bf16, capability), "") << capability;
  }
}

TEST(AttentionPlan, RefusalsSayWhatToWrite) {
  const AttentionShape good = llama(4, 2048, true);
  EXPECT_NE(attention_refusal(good, DType::f32, 90).find("precision.compute: bf16"), std::string::npos);
  AttentionShape shape = good;
  shape.head_dim = 36;
  EXPECT_NE(attention_refusal(shape, DType::bf16, 90).find("head_dim is 36"), std::string::npos);
  shape.head_dim = 192;
  EXPECT_EQ(attention_refusal(shape, DType::bf16, 90), "");
  EXPECT_NE(attention_refusal(shape, DType::bf16, 100).find("up to 128"), std::string::npos);
  EXPECT_NE(attention_refusal(shape, DType::bf16, 80).find("up to 128"), std::string::npos);
  shape.head_dim = 264;
  EXPECT_NE(attention_refusal(shape, DType::bf16, 90).find("up to 256"), std::string::npos);
  shape = good;
  shape.sequence = 1;
  EXPECT_NE(attention_refusal(shape, DType::bf16, 90).find("sequence_length"), std::string::npos);
  shape = good;
  shape.kv_heads = 5;
  EXPECT_NE(attention_refusal(shape, DType::bf16, 90).find("num_key_value_heads"), std::string::npos);
  shape = good;
  shape.qkv_pitch = 3076;
  EXPECT_NE(attention_refusal(shape, DType::bf16, 90).find("16 bytes"), std::string::npos);
  EXPECT_NE(attention_refusal(good, DType::bf16, 75).find("8.0 or newer"), std::string::npos);
}

}  // namespace
}  // namespace llmc
