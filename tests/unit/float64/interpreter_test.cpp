// Checks rules of the interpreter against values computed by hand.
#include "compiler/tools/float64/interpreter.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <deque>

#include "device/types.h"
#include "error.h"
#include "math/gemm.h"

namespace llmc::float64 {
namespace {

using namespace graph;
using Rows = std::vector<std::vector<double>>;

/// One op with its operands.
class Example {
 public:
  explicit Example(Op op) : op_(std::move(op)) { graph_.batch = 1, graph_.sequence = 2; }

  Example& in(const Rows& rows) { return add(rows, op_.inputs, inputs_); }
  /// State of another type, or of blocks.
  Example& in_state(const Rows& rows, DType dtype, std::int64_t block) {
    in(rows);
    graph_.at(op_.inputs.back()).dtype = dtype;
    graph_.at(op_.inputs.back()).state_block = block;
    return *this;
  }
  /// The operand given last has elements of these groups alone.
  Example& of_groups(GroupSet groups) {
    graph_.at(op_.outputs.empty() ? op_.inputs.back() : op_.outputs.back()).groups = groups;
    return *this;
  }
  Example& out(const Rows& rows) { return add(rows, op_.outputs, outputs_); }
  /// Output initialised to values that must be overwritten.
  Example& out(std::size_t rows, std::size_t cols) { return out(Rows(rows, std::vector<double>(cols, -99.0))); }
  template <class T>
  Example& in_record(T& record) {
    return add_record(record, op_.inputs, inputs_);
  }
  template <class T>
  Example& out_record(T& record) {
    return add_record(record, op_.outputs, outputs_);
  }

  float64::OpRun run(bool adds = false, double left_out = 0, std::int64_t state_begin = 0, double cut = 0) {
    float64::OpRun run{graph_, region_, op_, inputs_, outputs_, adds, 42, left_out, state_begin, 0, cut};
    interpret(run);
    return run;
  }

 private:
  Example& add(const Rows& rows, std::vector<TensorId>& ids, std::vector<OpValue>& values) {
    std::vector<double>& elements = memory_.emplace_back();
    for (const auto& row : rows) elements.insert(elements.end(), row.begin(), row.end());
    const auto r = static_cast<std::int64_t>(rows.size()), c = static_cast<std::int64_t>(rows[0].size());
    ids.push_back(graph_.add({.name = "t", .rows = r, .cols = c}));
    OpValue value;
    value.matrix = {elements.data(), r, c, c};
    values.push_back(std::move(value));
    return *this;
  }
  template <class T>
  Example& add_record(T& record, std::vector<TensorId>& ids, std::vector<OpValue>& values) {
    ids.push_back(graph_.add({.name = "record", .dtype = DType::byte, .rows = 1, .cols = sizeof(T)}));
    OpValue value;
    value.records = std::as_writable_bytes(std::span(&record, 1));
    values.push_back(std::move(value));
    return *this;
  }

  Graph graph_;
  Region region_;
  Op op_;
  std::vector<OpValue> inputs_, outputs_;
  std::deque<std::vector<double>> memory_;
};

void expect_near(const Matrix& found, const Rows& expected) {
  ASSERT_EQ(found.rows, static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i)
    for (std::size_t j = 0; j < expected[i].size(); ++j)
      EXPECT_NEAR(found.at(static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)), expected[i][j], 1e-12)
          << i << ", " << j;
}

TEST(Interpreter, SquaresOfSmallGradientsMayBeFlushedToZero) {
  Chunk chunk{};
  chunk.length = 3;
  Example example(Op{.kind = OpKind::gradient_norm, .name = "norm"});
  example.in({{1e-20, 2e-20, 0}}).in_record(chunk).out(1, 1);
  const auto run = example.run();
  EXPECT_DOUBLE_EQ(run.out(0).data[0], 5e-40);
  EXPECT_DOUBLE_EQ(run.outputs[0].flushed, 3 * kFlushed);
}

TEST(Interpreter, LinearAddsBiasAndResidual) {
  Op op{.kind = OpKind::linear, .name = "o", .attributes = ops::LinearAttributes{.bias = true, .residual = true}};
  Example example(op);
  example.in({{1, 2}}).in({{3, 4}, {5, 6}, {7, 8}}).in({{0.5, 0.25, 0.125}}).in({{100, 200, 300}}).out(1, 3);
  expect_near(example.run().out(0), {{111.5, 217.25, 323.125}});
}

TEST(Interpreter, QuantiseRoundsRowsToE4m3) {
  // 448 is the largest code. 500 needs the scale 2, so its neighbours are 64 apart: 480 and 512 of them.
  Example example(Op{.kind = OpKind::quantise, .name = "x"});
  example.in({{500, 17, -0.01}, {448, 17, 0}, {0, 0, 0}}).out(3, 3).out(1, 3);
  const auto run = example.run();
  expect_near(run.out(1), {{2, 1, 0x1p-100}});
  expect_near(run.out(0), {{512, 16, -0.01171875}, {448, 16, 0}, {0, 0, 0}});
  EXPECT_TRUE(run.outputs[0].exact);
}

TEST(Interpreter, QuantiseTakesFactorsIntoItsRows) {
  Example example(Op{.kind = OpKind::quantise, .name = "x"});
  example.in({{17, 17}}).in({{4, 0.25}}).out(1, 2).out(1, 1);
  const auto run = example.run();  // 68 and 4.25, whose neighbours are 8 and 0.5 apart; ties to even
  expect_near(run.out(1), {{0x1p-2}});
  expect_near(run.out(0), {{16, 16}});
}

TEST(Interpreter, ShareScaleRoundsSmallRowsAgain) {
  // Of the scale 2^10 the second row's 5 and 3 are multiples of 2^-9 times it: 2 and 1.5, which rounds to the even 2.
  Example example(Op{.kind = OpKind::share_scale, .name = "x"});
  example.in({{448 * 1024, 1024}, {4, 3}}).in({{1024, 0x1p-6}}).out(2, 2).out(1, 1);
  const auto run = example.run();
  expect_near(run.out(1), {{1024}});
  expect_near(run.out(0), {{448 * 1024, 1024}, {4, 4}});
}

TEST(Interpreter, AResultThatIsQuantisedMayBeRoundedToEitherSide) {
  // Of gates of 32 and more, silu is the gate itself. The kernel's number is in bf16 before it is quantised.
  Op op{.kind = OpKind::swiglu, .name = "s", .attributes = ops::SwigluAttributes{}};
  op.quantised = {{.output = 0, .alone = true}};
  Example example(op);
  example.in({{32, 64, 14, 17.0 / 64}, {40, 32, 2.6, 1}}).out(2, 2).out(1, 2);
  const auto run = example.run();
  // 448 is the largest code, and the number before it may be above; 17 is halfway between 16 and 18.
  const OpValue &y = run.outputs[0], &scales = run.outputs[1];
  expect_near(scales.matrix, {{1, 0.25}});
  EXPECT_EQ(scales.least, (std::vector<double>{1, 0.25}));
  EXPECT_EQ(scales.most, (std::vector<double>{2, 0.25}));
  expect_near(y.matrix, {{448, 16}, {104, 32}});
  EXPECT_EQ(y.least, (std::vector<double>{448, 16, 104, 32}));
  EXPECT_EQ(y.most, (std::vector<double>{448, 18, 104, 32}));
}

TEST(Interpreter, TransposedCodesOfAResultAreRoundedASecondTime) {
  // The first row is as above. 5 and 3 are 2.5 and 1.5 steps of 2^-9 under the scale that the rows share.
  Op op{.kind = OpKind::swiglu, .name = "s", .attributes = ops::SwigluAttributes{}};
  op.quantised = {{.output = 0, .alone = true, .transposed = true}};
  Example example(op);
  example.in({{32, 64, 14, 17.0 / 64}, {32, 64, 5.0 / 32, 3.0 / 64}}).in({{1, 0x1p-6}}).in({{1024}});
  example.out(2, 2).out(1, 2);
  const auto run = example.run();
  const OpValue &y = run.outputs[0], &scales = run.outputs[1];
  expect_near(scales.matrix, {{1024, 1024}});
  EXPECT_TRUE(scales.exact);
  expect_near(y.matrix, {{448.0 / 1024, 4.0 / 1024}, {16.0 / 1024, 4.0 / 1024}});
  EXPECT_EQ(y.least, (std::vector<double>{448.0 / 1024, 4.0 / 1024, 16.0 / 1024, 4.0 / 1024}));
  EXPECT_EQ(y.most, (std::vector<double>{448.0 / 1024, 4.0 / 1024, 18.0 / 1024, 4.0 / 1024}));
}

TEST(Interpreter, TensorsAreRoundedWithOneScale) {
  Example maxima(Op{.kind = OpKind::largest_magnitude, .name = "x"});
  maxima.in({{500, -17}, {3, 4}, {-5, 0.25}}).out(1, 2);
  expect_near(maxima.run().out(0), {{500, 5}});
  const auto check = [](DType code, OpKind kind, double scale, const Rows& expected) {
    Example example(Op{.kind = kind, .name = "x", .attributes = ops::CodeAttributes{code}});
    example.in({{500, 17, -0.01}}).in({{500, 17}}).out(expected.size(), expected[0].size()).out(1, 1);
    const auto run = example.run();
    expect_near(run.out(1), {{scale}});
    expect_near(run.out(0), expected);
    EXPECT_TRUE(run.outputs[0].exact && run.outputs[1].exact);
  };
  // 500 needs the scale 2 for e4m3, and 2^-6 for e5m2, of which 500 and 17 become 32000 and 1088.
  check(DType::e4m3, OpKind::quantise_by_tensor, 2, {{512, 16, -0.01171875}});
  check(DType::e5m2, OpKind::quantise_by_tensor, 0x1p-6, {{512, 16, -0.009765625}});
  check(DType::e5m2, OpKind::quantise_by_tensor_transposed, 0x1p-6, {{32768}, {1024}, {-0.625}});
}

TEST(Interpreter, BlocksAreRoundedWithAScaleEach) {
  // Two blocks, of 500 and 17 and of 104: their scales are 2 and 0.25.
  const std::vector<double> numbers = {500, 17}, rounded = {512, 16};
  Rows x(1, std::vector<double>(64)), y = x, column(64, std::vector<double>(1)), rounded_column = column;
  for (std::size_t i = 0; i < 64; ++i) {
    x[0][i] = column[i][0] = i < 32 ? numbers[i % 2] : 104;
    y[0][i] = rounded_column[i][0] = i < 32 ? rounded[i % 2] : 104;
  }
  for (const bool down : {false, true}) {
    Example example(Op{.kind = OpKind::quantise_blocks, .name = "x", .attributes = ops::BlockAttributes{down}});
    example.in(down ? column : x).out(down ? 64 : 1, down ? 1 : 64);
    const auto run = example.run();
    expect_near(run.out(0), down ? rounded_column : y);
    EXPECT_TRUE(run.outputs[0].exact);
  }
}

TEST(Interpreter, WhatAProductLeavesOutIsInItsBound) {
  // Norms of row and column 5 and 13; an fp32 sum of two products has an error of some 2^-24 of them.
  Example example(Op{.kind = OpKind::linear, .name = "y", .attributes = ops::LinearAttributes{}});
  example.in({{3, 4}}).in({{5, 12}}).out(1, 1);
  const auto fp32 = example.run(), split = example.run(false, kBf16x3);
  EXPECT_EQ(split.outputs[0].scale_at(0, 0), 65);
  EXPECT_EQ(split.outputs[0].noise - fp32.outputs[0].noise, kBf16x3);
  EXPECT_LT(fp32.outputs[0].noise, 10 * kFp32);
  EXPECT_EQ(fp32.outputs[0].flushed, 2 * kFlushed) << "each term";
  const auto cut = example.run(false, kBf16x3, 0, 0x1p-4);  // of the largest result, 63
  EXPECT_DOUBLE_EQ(cut.outputs[0].noise * cut.outputs[0].scale_at(0, 0), split.outputs[0].noise * 65 + 63 * 0x1p-4);
}

TEST(Interpreter, WeightGradientsAddUp) {
  Example example(Op{.kind = OpKind::linear_wgrad, .name = "w"});
  example.in({{1, 2}, {3, 4}}).in({{5}, {6}}).out({{10}, {20}});
  expect_near(example.run(true).out(0), {{10 + 5 + 18}, {20 + 10 + 24}});
  expect_near(example.run(false).out(0), {{23}, {34}});
}

TEST(Interpreter, ProductsOfEveryShapeOfBlock) {
  // 5 rows and 17 columns leave partial blocks in both directions.
  Rows x(5, std::vector<double>(3)), w(17, std::vector<double>(3)), y(5, std::vector<double>(17));
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t k = 0; k < 3; ++k) x[i][k] = static_cast<double>(i + 10 * k);
  for (std::size_t j = 0; j < 17; ++j)
    for (std::size_t k = 0; k < 3; ++k) w[j][k] = static_cast<double>(j) - static_cast<double>(k);
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 17; ++j)
      for (std::size_t k = 0; k < 3; ++k) y[i][j] += x[i][k] * w[j][k];
  Example example(Op{.kind = OpKind::linear, .name = "x", .attributes = ops::LinearAttributes{}});
  example.in(x).in(w).out(5, 17);
  expect_near(example.run().out(0), y);
}

TEST(Interpreter, RmsNormAndItsGradient) {
  // mean(x^2) = (9 + 16) / 2 = 12.5; with eps 3.5 rstd is 1/4.
  Example forward(Op{.kind = OpKind::rms_norm, .name = "n", .attributes = ops::RmsNormAttributes{3.5}});
  forward.in({{3, 4}}).in({{2, 10}}).out(1, 2).out(1, 1);
  const auto run = forward.run();
  expect_near(run.out(0), {{1.5, 10}});
  expect_near(run.out(1), {{0.25}});
  // w dy = (2, 20); mean(w dy x) = (6 + 80) / 2 = 43; dx = (w dy - x 43 / 16) / 4.
  Example backward(Op{
      .kind = OpKind::rms_norm_backward, .name = "n", .attributes = ops::RmsNormBackwardAttributes{.residual = true}});
  backward.in({{1, 2}}).in({{3, 4}}).in({{2, 10}}).in({{0.25}}).in({{100, 200}}).out(1, 2).out(1, 2);
  const auto slopes = backward.run();
  expect_near(slopes.out(0), {{100 + (2 - 3 * 43 / 16.0) / 4, 200 + (20 - 4 * 43 / 16.0) / 4}});
  expect_near(slopes.out(1), {{0.75, 2}});
  EXPECT_TRUE(slopes.outputs[1].sums_alone);
}

TEST(Interpreter, RopeTurnsAndTurnsBack) {
  const ops::Heads heads{.query = 1, .key = 1, .dim = 2};
  const Rows table = {{1, 0}, {0, 1}};  // position 1: a quarter turn
  const Rows qkv = {{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}}, turned = {{1, 2, 3, 4, 5, 6}, {-2, 1, -4, 3, 5, 6}};
  Example forward(
      Op{.kind = OpKind::rope, .name = "rope", .attributes = ops::RopeAttributes{.heads = heads, .rotary = 2}});
  expect_near(forward.in(qkv).in(table).out(2, 6).run().out(0), turned);
  Example backward(Op{
      .kind = OpKind::rope_backward, .name = "rope", .attributes = ops::RopeAttributes{.heads = heads, .rotary = 2}});
  expect_near(backward.in(turned).in(table).out(2, 6).run().out(0), qkv);
  Example still(Op{.kind = OpKind::rope,
                   .name = "rope",
                   .attributes = ops::RopeAttributes{.heads = heads, .rotary = 2, .rotates = false}});
  expect_near(still.in(qkv).in(table).out(2, 6).run().out(0), qkv);
}

TEST(Interpreter, RopeOfNeighboursLeavesTheRest) {
  const ops::RopeAttributes attributes{.heads = {.query = 1, .key = 1, .dim = 3}, .rotary = 2, .interleaved = true};
  const Rows qkv = {{1, 2, 7, 3, 4, 8, 5, 6, 9}}, table = {{0, 1}};
  Example forward(Op{.kind = OpKind::rope, .name = "rope", .attributes = attributes});
  expect_near(forward.in(qkv).in(table).out(1, 9).run().out(0), {{-2, 1, 7, -4, 3, 8, 5, 6, 9}});
}

TEST(Interpreter, ProductsAndEmbeddingsAreScaled) {
  const Rows x = {{1, 2}}, w = {{3, 4}, {5, 6}};
  Example forward(Op{.kind = OpKind::linear, .name = "l", .attributes = ops::LinearAttributes{.scale = 0.5}});
  expect_near(forward.in(x).in(w).out(1, 2).run().out(0), {{5.5, 8.5}});
  Example dgrad(Op{.kind = OpKind::linear_dgrad, .name = "l", .attributes = ops::LinearAttributes{.scale = 0.5}});
  expect_near(dgrad.in(x).in(w).out(1, 2).run().out(0), {{6.5, 8}});
  Example wgrad(Op{.kind = OpKind::linear_wgrad, .name = "l", .attributes = ops::ScaleAttributes{0.5}});
  expect_near(wgrad.in(x).in({{4, 6}}).out(2, 2).run().out(0), {{2, 3}, {4, 6}});
  Example rows(Op{.kind = OpKind::embedding, .name = "e", .attributes = ops::ScaleAttributes{12}});
  expect_near(rows.in({{1}}).in(w).out(1, 2).run().out(0), {{60, 72}});
}

TEST(Interpreter, AttentionHasAMultiplier) {
  // Scores of the second token are 0 and 0.5 * 2 ln 3.
  Example forward(Op{.kind = OpKind::attention,
                     .name = "a",
                     .attributes = ops::AttentionAttributes{.heads = {1, 1, 1}, .multiplier = 0.5}});
  expect_near(forward.in({{7, 0, 8}, {1, 2 * std::log(3.0), 16}}).out(2, 1).out(1, 2).run().out(0), {{8}, {14}});
}

TEST(Interpreter, AttentionIsCausal) {
  // One head of one element: scores of the second token are 0 and ln 3, so it attends by 1/4 and 3/4.
  const double ln3 = std::log(3.0);
  Example forward(Op{.kind = OpKind::attention, .name = "a", .attributes = ops::AttentionAttributes{{1, 1, 1}}});
  const Rows qkv = {{7, 0, 8}, {1, ln3, 16}};
  forward.in(qkv).out(2, 1).out(1, 2);
  const auto run = forward.run();
  expect_near(run.out(0), {{8}, {14}});
  expect_near(run.out(1), {{0, std::log(4.0)}});
  // dout = (0, 1): dv = (1/4, 3/4); ds = p (v - 14) = (-1.5, 1.5); dq = ds k, dk = ds q.
  Example backward(
      Op{.kind = OpKind::attention_backward, .name = "a", .attributes = ops::AttentionAttributes{{1, 1, 1}}});
  backward.in({{0}, {1}}).in({{8}, {14}}).in(qkv).in({{0, std::log(4.0)}}).out(2, 3).out(1, 1);
  const auto slopes = backward.run();
  expect_near(slopes.out(0), {{0, -1.5, 0.25}, {1.5 * ln3, 1.5, 0.75}});
  EXPECT_TRUE(slopes.outputs[1].undefined);
}

TEST(Interpreter, AttentionRotatesItsGradientsBack) {
  // The same with heads of two elements, the second ones 0, and the angles of (0.6, 0.8) and of a quarter.
  const double ln3 = std::log(3.0);
  Example backward(Op{.kind = OpKind::attention_backward,
                      .name = "a",
                      .attributes = ops::AttentionAttributes{.heads = {1, 1, 2}, .multiplier = 1, .rotates = true}});
  backward.in({{0, 0}, {1, 0}}).in({{8, 0}, {14, 0}}).in({{7, 0, 0, 0, 8, 0}, {1, 0, ln3, 0, 16, 0}});
  backward.in({{0, std::log(4.0)}}).in({{0.6, 0.8}, {0, 1}}).out(2, 6).out(1, 1);
  expect_near(backward.run().out(0), {{0, 0, -0.9, 1.2, 0.25, 0}, {0, -1.5 * ln3, 0, -1.5, 0.75, 0}});
}

/// GELU's tanh formula at 1 and its slope there, as PyTorch gives them.
TEST(Interpreter, GegluAndItsGradient) {
  const double gelu = 0.8411919906082768, slope = 1.0829640838457826;
  Example forward(Op{.kind = OpKind::swiglu,
                     .name = "s",
                     .attributes = ops::SwigluAttributes{.act = spec::HiddenAct::gelu_pytorch_tanh}});
  expect_near(forward.in({{1, 4}}).out(1, 1).run().out(0), {{gelu * 4}});
  Example backward(Op{.kind = OpKind::swiglu_backward,
                      .name = "s",
                      .attributes = ops::SwigluBackwardAttributes{.act = spec::HiddenAct::gelu_pytorch_tanh}});
  expect_near(backward.in({{2}}).in({{1, 4}}).out(1, 2).run().out(0), {{2 * 4 * slope, 2 * gelu}});
}

TEST(Interpreter, SwigluAndItsGradient) {
  const double g = std::log(3.0), s = 0.75;  // sigmoid(ln 3)
  Example forward(Op{.kind = OpKind::swiglu, .name = "s", .attributes = ops::SwigluAttributes{}});
  expect_near(forward.in({{g, 0, 4, 0}}).out(1, 1).run().out(0), {{g * s * 4}});  // halves of two elements, one used
  Example backward(
      Op{.kind = OpKind::swiglu_backward, .name = "s", .attributes = ops::SwigluBackwardAttributes{.recompute = true}});
  const auto run = backward.in({{2}}).in({{g, 0, 4, 0}}).out(1, 4).out(1, 1).run();
  expect_near(run.out(0), {{2 * 4 * s * (1 + g * 0.25), 0, 2 * g * s, 0}});
  expect_near(run.out(1), {{g * s * 4}});
}

TEST(Interpreter, CrossEntropyWritesItsGradientOverTheLogits) {
  StepScalars scalars{};
  scalars.loss_scale = 0.5f;
  Example example(
      Op{.kind = OpKind::cross_entropy, .name = "l", .attributes = ops::CrossEntropyAttributes{.gradient = true}});
  example.in({{0, std::log(3.0)}, {5, 5}}).in({{1, -1}}).in_record(scalars).out(1, 2).out(1, 2).out(1, 2).out(1, 2);
  const auto run = example.run();
  EXPECT_NEAR(run.out(0).data[0], std::log(4.0 / 3), 1e-12);
  EXPECT_NEAR(run.out(1).data[0], std::log(4.0), 1e-12);
  EXPECT_NEAR(run.out(2).data[0], std::log(4.0) - 0.75 * std::log(3.0), 1e-12);
  EXPECT_EQ(run.out(3).data[0], 1);
  EXPECT_EQ(run.out(0).data[1], 0) << "without a target";
  EXPECT_TRUE(std::isinf(run.out(1).data[1]));
  expect_near(run.in(0), {{0.125, -0.125}, {0, 0}});
}

TEST(Interpreter, ColumnReduceAddsEveryNthRow) {
  Example fold(Op{.kind = OpKind::column_reduce, .name = "c"});
  expect_near(fold.in({{1}, {2}, {30}, {40}}).out(2, 1).run(true).out(0), {{31}, {42}});
  Example last(Op{.kind = OpKind::column_reduce, .name = "c"});
  last.in({{1}, {2}}).out({{100}});
  expect_near(last.run(true).out(0), {{103}});
  expect_near(last.run(false).out(0), {{3}});
}

TEST(Interpreter, EmbeddingGradientAddsPositionsOfAToken) {
  Example example(Op{.kind = OpKind::embedding_backward, .name = "e"});
  example.in({{1}, {2}, {4}}).in({{1, 0, 2}}).in({{0, 1, 3}}).in({{0, 2}}).in({{2}}).out({{100}, {200}, {300}});
  expect_near(example.run().out(0), {{102}, {200}, {305}});
}

TEST(Interpreter, AdamWIsTheFormula) {
  StepResults results{};
  results.clip_scale = 0.5f;
  Chunk chunk{0, 0, 1, 0, 0};
  AdamwScalars scalars{0.5f, 0.75f, 0.0f, 0, {0.5f, 9}, {0.25f, 9}};
  GroupScalars group{0.25f, 0.5f};
  Example example(Op{.kind = OpKind::adamw, .name = "adamw", .attributes = ops::UpdateAttributes{}});
  example.in_record(results).in({{8}}).in({{4}}).in_record(chunk).in_record(scalars).in_record(group).in({{0}}).in(
      {{0}});
  // g = 2: m = 1, v = 1, m_hat = 2, v_hat = 4: a step of 0.25; decay takes 1/8 of 8.
  const auto run = example.run();
  expect_near(run.in(1), {{8 - 1 - 0.25}});
  expect_near(run.in(6), {{1}});
  expect_near(run.in(7), {{1}});
}

/// Two blocks of 2; in the second the first moment has no gradient, so that it decays to half.
TEST(Interpreter, AdamWInt8RoundsItsMomentsBlockByBlock) {
  StepResults results{};
  results.clip_scale = 0.5f;
  Chunk chunk{0, 0, 3, 0, 0};
  AdamwScalars scalars{0.5f, 0.75f, 0.0f, 0, {0.5f, 9}, {0.25f, 9}};
  GroupScalars group{0.25f, 0.5f};
  Example example(Op{.kind = OpKind::adamw_int8, .name = "adamw_int8", .attributes = ops::UpdateAttributes{}});
  example.in_record(results).in({{8, 8, 8}}).in({{4, -1.2, 0}}).in_record(chunk).in_record(scalars).in_record(group);
  example.in_state({{0, 0, -0.5}}, DType::dynamic8, 1).in_state({{0, 4}}, DType::f32, 2);
  example.in_state({{0, 0, 1}}, DType::udynamic8, 1).in_state({{0, 16}}, DType::f32, 2);
  const auto run = example.run();
  // m = 1, -0.3 and -1; v = 1, 0.09 and 12. Updates take these: of the third element 0.25 * (-2) / sqrt(48).
  expect_near(run.in(1), {{8 - 1 - 0.25, 8 - 1 + 0.25, 8 - 1 + 0.5 / std::sqrt(48.0)}});
  expect_near(run.in(7), {{1, 1}});
  expect_near(run.in(9), {{1, 12}});
  // -0.3 lies nearest to the 15th of 64 parts of [0.1, 1]; 0.09 to the 57th of 64 of [0.01, 0.1]; -1 has no code.
  expect_near(run.in(6), {{1, -(0.1 + 0.9 * 14.5 / 64), -(0.1 + 0.9 * 63.5 / 64)}});
  expect_near(run.in(8), {{1, 0.1 * (0.1 + 0.9 * 56.5 / 64), 1}});
}

TEST(Interpreter, LionIsTheFormula) {
  StepResults results{};
  results.clip_scale = 0.5f;
  Chunk chunk{0, 0, 1, 0, 0};
  LionScalars scalars{0.5f, 0.75f};
  GroupScalars group{0.25f, 0.5f};
  Example example(Op{.kind = OpKind::lion, .name = "lion", .attributes = ops::UpdateAttributes{}});
  example.in_record(results).in({{8}}).in({{4}}).in_record(chunk).in_record(scalars).in_record(group).in({{-4}});
  // g = 2: the direction is -2 + 1, the momentum -3 + 0.5; decay takes 1/8 of 8.
  const auto run = example.run();
  expect_near(run.in(1), {{8 - 1 + 0.25}});
  expect_near(run.in(6), {{-2.5}});
}

/// The rest stands for the masters, which the op has in place of them; copies have them all, ties are not compared.
TEST(Interpreter, AnUpdateOfSplitMastersIsThatOfMasters) {
  StepResults results{};
  results.clip_scale = 0.5f;
  std::array<Chunk, 2> chunks{{{0, 0, 1, 0, 0}, {1, 1, 1, 1, 1}}};
  std::array<LionScalars, 2> scalars{{{9, 9}, {0.5f, 0.75f}}};
  std::array<GroupScalars, 2> groups{{{9, 9}, {0.25f, 0.5f}}};
  const ops::UpdateAttributes attributes{.copies = true, .norms = true, .groups = 0b10, .split = true};
  Example example(Op{.kind = OpKind::lion, .name = "lion", .attributes = attributes});
  example.in_record(results).in({{3, 8}}).in({{4, 4}}).in_record(chunks).in_record(scalars).in_record(groups);
  example.in({{0, -4}}).out({{3, 8}}).out({{5, 5}}).out(1, 2).out(1, 2);
  const auto run = example.run();
  expect_near(run.in(1), {{3, 8 - 1 + 0.25}});
  expect_near(run.in(6), {{0, -2.5}});
  expect_near(run.out(0), {{3, 7.25}});
  EXPECT_TRUE(run.outputs[1].undefined);
  expect_near(run.out(2), {{-99, 7.25 * 7.25}});
  expect_near(run.out(3), {{-99, 0.75 * 0.75}});
}

/// The first of two groups, norms say, has masters of its own.
TEST(Interpreter, MastersAreSplitAndJoinedByGroups) {
  std::array<Chunk, 2> chunks{{{0, 0, 2, 0, 0}, {2, 2, 1, 1, 1}}};
  Example splits(Op{.kind = OpKind::split_masters, .name = "split_masters"});
  splits.in({{1, 2, 3}}).in_record(chunks).out({{0, 0, 0}}).of_groups(0b01);
  splits.out({{0, 0, 0}}).out({{0, 0, 0}}).out({{0, 0, 0}});
  const auto split = splits.run();
  expect_near(split.out(0), {{1, 2, 0}});
  expect_near(split.out(1), {{1, 2, 3}});
  expect_near(split.out(2), {{0, 0, 3}});
  EXPECT_TRUE(split.outputs[3].undefined);

  Example joins(Op{.kind = OpKind::join_masters, .name = "join_masters"});
  joins.in({{1, 2, 7}}).of_groups(0b01).in({{9, 9, 9}}).in({{7, 7, 3}}).in({{9, 9, 9}}).in_record(chunks).out(1, 3);
  expect_near(joins.run().out(0), {{1, 2, 3}});
}

/// Of two chunks the second is of a group that names the optimizer, which keeps state for it alone.
TEST(Interpreter, AnUpdateOfOneGroupLeavesTheOthers) {
  StepResults results{};
  results.clip_scale = 0.5f;
  std::array<Chunk, 2> chunks{{{0, 0, 1, 0, 0}, {1, 7, 1, 1, 1}}};
  std::array<LionScalars, 2> scalars{{{9, 9}, {0.5f, 0.75f}}};
  std::array<GroupScalars, 2> groups{{{9, 9}, {0.25f, 0.5f}}};
  Example example(Op{.kind = OpKind::lion, .name = "lion", .attributes = ops::UpdateAttributes{.groups = 0b10}});
  example.in_record(results).in({{3, 8}}).in({{4, 4}}).in_record(chunks).in_record(scalars).in_record(groups).in(
      {{-4}});
  const auto run = example.run(false, 0, 7);
  expect_near(run.in(1), {{3, 8 - 1 + 0.25}});
  expect_near(run.in(6), {{-2.5}});
}

TEST(Interpreter, NothingBetweenRanks) {
  Example example(Op{.kind = OpKind::all_reduce, .name = "all_reduce"});
  EXPECT_THROW(example.run(), Failure);
}

}  // namespace
}  // namespace llmc::float64
