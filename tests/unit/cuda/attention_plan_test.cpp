// The compiler's knowledge of attention on CUDA without a toolkit: its workspace, its slices, refusals.
#include <gtest/gtest.h>

#include "math/attention.h"

namespace llmc {
namespace {

AttentionShape llama(std::int64_t batch, std::int64_t sequence, bool deterministic) {
  return {.batch = batch,
          .sequence = sequence,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 64,
          .qkv_pitch = 3072,
          .out_pitch = 2048,
          .deterministic = deterministic};
}

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(AttentionPlan, OneSequenceByHand) {
  // dS 32 * 2048 * 2048 * 2 = 256 MiB; dk and dv of 32 heads 2 * 32 * 2048 * 64 * 2 = 16 MiB; sums 32 * 2048 * 4.
  EXPECT_EQ(attention_slice_bytes(llama(16, 2048, true), {1, 8}), (256 + 16 + 1) * kMiB + kMiB / 4);
  // dq twice in fp32, 16 MiB each, instead of dS.
  EXPECT_EQ(attention_slice_bytes(llama(16, 2048, false), {1, 8}), (32 + 16 + 1) * kMiB + kMiB / 4);
}

TEST(AttentionPlan, MoreSequencesTakeProportionallyMore) {
  const AttentionShape shape = llama(16, 2048, true);
  EXPECT_EQ(attention_slice_bytes(shape, {4, 8}) - kMiB, 4 * (attention_slice_bytes(shape, {1, 8}) - kMiB));
  EXPECT_EQ(attention_slice_bytes(shape, {1, 8}) - kMiB, 8 * (attention_slice_bytes(shape, {1, 1}) - kMiB));
}

/// Workspace sizes that cuDNN 9.19.0 returned for these backward plans, from finalising the graphs of attention.cpp.
struct Answer {
  int capability;
  AttentionShape shape;
  std::size_t bytes;
};

AttentionShape small(std::int64_t batch, std::int64_t sequence, std::int64_t heads, std::int64_t kv_heads,
                     std::int64_t head_dim, bool deterministic) {
  return {.batch = batch,
          .sequence = sequence,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .qkv_pitch = (heads + 2 * kv_heads) * head_dim,
          .out_pitch = heads * head_dim,
          .deterministic = deterministic};
}

TEST(AttentionPlan, CoversWhatCudnnAsksFor) {
  const Answer answers[] = {
      {90, small(2, 2048, 32, 8, 64, true), 570949888},    {80, small(2, 2048, 32, 8, 64, true), 570949760},
      {100, small(2, 2048, 32, 8, 64, true), 67633280},    {90, small(16, 2048, 32, 8, 64, false), 541065472},
      {80, small(16, 2048, 32, 8, 64, false), 809500800},  {100, small(16, 2048, 32, 8, 64, false), 541065344},
      {90, small(2, 77, 6, 6, 40, true), 397168},          {80, small(2, 77, 6, 6, 40, false), 305264},
      {90, small(2, 200, 4, 1, 128, true), 1874432},       {80, small(2, 200, 4, 1, 128, false), 2464128},
      {100, small(2, 200, 4, 1, 128, true), 1644928},      {90, small(3, 256, 8, 4, 32, true), 3956992},
      {90, small(1, 130, 8, 4, 96, true), 1190208},        {90, small(1, 8192, 4, 1, 64, true), 545390848},
      {80, small(8, 1024, 16, 16, 128, false), 134742144}, {90, small(1, 2048, 2, 1, 192, true), 19939584},
      {90, small(3, 1921, 4, 2, 80, true), 104986672},     {80, small(3, 1921, 4, 2, 80, false), 22249136},
      {100, small(2, 64, 4, 2, 128, true), 526464},        {120, small(2, 33, 4, 4, 128, false), 300192},
      {90, small(2, 8, 4, 4, 128, true), 131584},
  };
  for (const Answer& answer : answers) {
    const std::size_t planned = attention_slice_bytes(answer.shape, {answer.shape.batch, answer.shape.kv_heads});
    EXPECT_GE(planned, answer.bytes) << answer.capability << ", sequence " << answer.shape.sequence;
    // On Hopper, deterministic, the plan must not exceed cuDNN's need plus the margin for other versions.
    if (answer.capability == 90 && answer.shape.deterministic) {
      EXPECT_LE(planned, answer.bytes + kMiB) << answer.shape.sequence;
    }
  }
}

TEST(AttentionPlan, TheReferenceRunStaysWithinALimit) {
  const AttentionShape shape = llama(16, 2048, true);
  const AttentionSlice slice = attention_slice(shape);
  EXPECT_EQ(slice.batch, 4);
  EXPECT_EQ(slice.kv_heads, 8);
  EXPECT_EQ(attention_workspace_bytes(shape), attention_slice_bytes(shape, {4, 8}));
  EXPECT_LE(attention_workspace_bytes(shape), kAttentionWorkspaceLimit);
  EXPECT_GT(attention_slice_bytes(shape, {8, 8}), kAttentionWorkspaceLimit);
  static_assert(attention_workspace_bytes({1, 256, 8, 4, 32, 512, 256, true}) > 0, "usable in constants");
}

TEST(AttentionPlan, ASliceDividesTheBatch) {
  for (std::int64_t batch = 1; batch <= 24; ++batch) {
    const AttentionShape shape = llama(batch, 2048, true);
    const AttentionSlice slice = attention_slice(shape);
    EXPECT_EQ(batch % slice.batch, 0) << batch;
    EXPECT_LE(slice.batch, 4) << batch;
    EXPECT_LE(attention_workspace_bytes(shape), kAttentionWorkspaceLimit) << batch;
  }
}

TEST(AttentionPlan, ALongSequenceIsCutByHeads) {
  // 4 * 8192 * 8192 * 2 bytes are 512 MiB: two groups of four heads fit, four do not.
  const AttentionSlice slice = attention_slice(llama(2, 8192, true));
  EXPECT_EQ(slice.batch, 1);
  EXPECT_EQ(slice.kv_heads, 2);
  // One group of 32768 takes 8 GiB: it is planned, not hidden.
  EXPECT_EQ(attention_slice(llama(1, 32768, true)).kv_heads, 1);
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

TEST(AttentionPlan, ReleasesOfCudnnThatAreWrongAreRefused) {
  const AttentionShape whole = llama(4, 2048, true), part = llama(4, 2080, true);
  for (const std::size_t version : {91000u, 91001u})
    for (const bool backward : {false, true}) {
      const std::string refusal = cudnn_release_refusal(version, whole, backward, 90);
      EXPECT_NE(refusal.find("cuDNN 9.10." + std::to_string(version % 100)), std::string::npos) << refusal;
      EXPECT_NE(refusal.find("write target.attention: portable"), std::string::npos) << refusal;
    }
  EXPECT_EQ(cudnn_release_refusal(91002, whole, true, 90), "");
  EXPECT_NE(cudnn_release_refusal(91500, part, true, 90).find("a multiple of 128"), std::string::npos);
  EXPECT_EQ(cudnn_release_refusal(91500, part, false, 90), "");
  EXPECT_EQ(cudnn_release_refusal(91500, whole, true, 90), "");
  EXPECT_EQ(cudnn_release_refusal(91501, part, true, 90), "");
}

TEST(AttentionPlan, ReleasesOfCudnnWithoutADeterministicPassAreRefusedOnBlackwell) {
  const AttentionShape free = llama(4, 2048, false), shape = llama(4, 2048, true);
  for (const int capability : {100, 103}) {
    EXPECT_NE(cudnn_release_refusal(91701, shape, true, capability).find("no deterministic backward"),
              std::string::npos);
    EXPECT_EQ(cudnn_release_refusal(91701, shape, false, capability), "");
    EXPECT_EQ(cudnn_release_refusal(91701, free, true, capability), "");
    EXPECT_EQ(cudnn_release_refusal(91800, shape, true, capability), "");
  }
  EXPECT_EQ(cudnn_release_refusal(91701, shape, true, 120), "");
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
