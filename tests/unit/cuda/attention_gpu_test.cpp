// Compares cuDNN's attention with the formulas.
#include <gtest/gtest.h>

#include "attention_formulas.h"

namespace llmc {
namespace {

AttentionShape make(std::int64_t batch, std::int64_t sequence, std::int64_t heads, std::int64_t kv_heads,
                    std::int64_t head_dim, bool deterministic) {
  return {.batch = batch,
          .sequence = sequence,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .qkv_pitch = (heads + 2 * kv_heads) * head_dim + 8,
          .out_pitch = heads * head_dim + 16,
          .deterministic = deterministic};
}

constexpr BackwardWay kCudnnBackward[] = {{AttentionBy::cudnn}};

AttentionRun run_cudnn(const AttentionShape& shape, float sharpness = 1) {
  std::unique_ptr<MathLibrary> library;  // must outlive the attention created from it
  const auto make = [&](Device& device, Pieces& pieces) {
    library = std::make_unique<MathLibrary>(device, pieces.take(std::size_t{32} << 20), std::size_t{32} << 20);
    return Attention(*library, {shape, kCudnnBackward});
  };
  return {shape, attention_workspace_bytes(shape), make, sharpness};
}

TEST(Attention_gpu, GroupedHeadsEqualTheFormulas) {
  const AttentionRun run = run_cudnn(make(3, 256, 8, 2, 64, true));
  expect_formulas(run, 60);
  expect_padding_untouched(run);
  EXPECT_EQ(run.dq_dk_dv, run.again);
}

TEST(Attention_gpu, OddLengthsEqualTheFormulas) {
  const AttentionRun run = run_cudnn(make(2, 77, 6, 6, 40, true));
  expect_formulas(run, 60);
  expect_padding_untouched(run);
}

TEST(Attention_gpu, WideHeadsOverOneKeyEqualTheFormulas) {
  expect_formulas(run_cudnn(make(2, 200, 4, 1, 128, true)), 40);
}

TEST(Attention_gpu, LargeScoresEqualTheFormulas) {
  expect_formulas(run_cudnn(make(2, 77, 6, 6, 40, true), kSharp), 40, kLargeScores);
}

TEST(Attention_gpu, WindowsEqualTheFormulas) {
  for (const int window : {1, 45, 149}) {
    AttentionShape shape = make(2, 150, 4, 2, 40, true);
    shape.window = window;
    const AttentionRun run = run_cudnn(shape);
    expect_formulas(run, 40);
    EXPECT_EQ(run.dq_dk_dv, run.again);
  }
}

TEST(Attention_gpu, MultipliersEqualTheFormulas) {
  AttentionShape shape = make(2, 150, 4, 2, 40, true);
  shape.multiplier = 0.5f;
  expect_formulas(run_cudnn(shape), 40);
}

TEST(Attention_gpu, AtomicsEqualTheFormulas) { expect_formulas(run_cudnn(make(2, 256, 8, 4, 64, false)), 40); }

TEST(Attention_gpu, SlicesOfTheBatchEqualTheFormulas) {
  const AttentionShape shape = make(8, 2048, 32, 8, 64, true);
  ASSERT_EQ(attention_slice(shape).batch, 4);
  const AttentionRun run = run_cudnn(shape);
  expect_formulas(run, 40);
  EXPECT_EQ(run.dq_dk_dv, run.again);
}

TEST(Attention_gpu, SlicesOfTheHeadsEqualTheFormulas) {
  const AttentionShape shape = make(2, 8192, 16, 4, 64, true);
  ASSERT_EQ(attention_slice(shape).batch, 1);
  ASSERT_EQ(attention_slice(shape).kv_heads, 2);
  expect_formulas(run_cudnn(shape), 8);
}

}  // namespace
}  // namespace llmc
