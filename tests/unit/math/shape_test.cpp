// Matrix products as values: described, sized and keyed by each operand.
#include <gtest/gtest.h>

#include "math/gemm_text.h"

namespace llmc {
namespace {

constexpr GemmShape kPadded{.name = "qkv",
                            .m = 64,
                            .n = 96,
                            .k = 32,
                            .transpose_b = true,
                            .pitch_a = 32,
                            .pitch_b = 48,
                            .pitch_d = 96,
                            .operand = DType::bf16,
                            .result = DType::f32,
                            .residual = true};

TEST(GemmShape, EachOperandHasItsOwnLayout) {
  constexpr GemmMatrix a = kPadded.a(), b = kPadded.b(), c = kPadded.c(), d = kPadded.d();
  EXPECT_EQ(a.rows, 64);
  EXPECT_EQ(a.cols, 32);
  EXPECT_FALSE(a.transposed);
  EXPECT_EQ(b.rows, 96);
  EXPECT_EQ(b.cols, 32);
  EXPECT_TRUE(b.transposed);
  EXPECT_EQ(b.dtype, DType::bf16);
  EXPECT_EQ(b.bytes(), 2 * 96 * 32);
  EXPECT_EQ(b.extent(), 2 * 96 * 48);
  EXPECT_EQ(d.rows, 64);
  EXPECT_EQ(d.cols, 96);
  EXPECT_EQ(d.dtype, DType::f32);
  EXPECT_EQ(c.extent(), d.extent());
  EXPECT_EQ(kPadded.flops(), 2.0 * 64 * 96 * 32);
  EXPECT_EQ(kPadded.bytes(), 2 * 64 * 32 + 2 * 96 * 32 + 2 * 4 * 64 * 96);
  GemmShape gradient = kPadded;
  gradient.transpose_a = true, gradient.transpose_b = false, gradient.residual = false;
  EXPECT_EQ(gradient.a().rows, 32);
  EXPECT_EQ(gradient.a().cols, 64);
  EXPECT_EQ(gradient.b().rows, 32);
  EXPECT_EQ(gradient.b().cols, 96);
  EXPECT_EQ(gradient.bytes(), 2 * 64 * 32 + 2 * 96 * 32 + 4 * 64 * 96);
}

/// Codes of 8 bits with an fp32 for each row of x and of the weight.
GemmShape scaled() {
  GemmShape shape = kPadded;
  shape.operand = DType::e4m3, shape.scaling = Scaling::rows;
  return shape;
}

TEST(GemmShape, ScalesAreRead) {
  EXPECT_EQ(kPadded.scale_bytes(), 0);
  EXPECT_EQ(scaled().scale_bytes(), 4 * (64 + 96));
  EXPECT_EQ(scaled().bytes(), 64 * 32 + 96 * 32 + 4 * (64 + 96) + 2 * 4 * 64 * 96);
}

TEST(GemmShape, ScalesOfBlocksArePaddedToTiles) {
  GemmShape shape = scaled();
  shape.scaling = Scaling::blocks, shape.m = 160, shape.k = 160;
  EXPECT_EQ(shape.scale_bytes(), 256 * 8 + 128 * 8) << "five scales for each of 160 rows and 96 columns";
  EXPECT_NE(text(shape).find(", scaled by blocks"), std::string::npos);
}

/// A gradient's codes by an operand's, with an fp32 for each.
GemmShape scaled_by_tensors() {
  GemmShape shape = scaled();
  shape.scaling = Scaling::tensors, shape.e5m2_a = true;
  return shape;
}

TEST(GemmShape, OperandsOfEightBitsMayDiffer) {
  const GemmShape shape = scaled_by_tensors();
  EXPECT_EQ(shape.a().dtype, DType::e5m2);
  EXPECT_EQ(shape.b().dtype, DType::e4m3);
  EXPECT_EQ(shape.scale_bytes(), 4 * 2);
  EXPECT_EQ(shape.scales_a(), 1);
  EXPECT_EQ(scaled().scales_b(), 96);
  EXPECT_EQ(shape.bytes(), 64 * 32 + 96 * 32 + 4 * 2 + 2 * 4 * 64 * 96);
  EXPECT_EQ(text(shape),
            "qkv [m 64, n 96, k 32] with B transposed, residual in e5m2 x e4m3 -> fp32, scaled by tensors");
  EXPECT_EQ(tuned_key(shape),
            "[64, 32] pitch 32 e5m2 x [32, 96] pitch 48 transposed e4m3 -> [64, 96] pitch 96 fp32 + residual, scaled "
            "by tensors, aligned 256 256 256 256");
}

TEST(GemmShape, ABiasHasTheTypeOfTheResultExceptForEightBits) {
  EXPECT_EQ(kPadded.bias_dtype(), DType::f32);
  GemmShape shape = scaled();
  EXPECT_EQ(shape.bias_dtype(), DType::bf16);
  shape.result = DType::bf16;
  EXPECT_EQ(shape.bias_dtype(), DType::bf16);
}

TEST(GemmShape, TextNamesWhatDiffersFromAPlainProduct) {
  GemmShape shape = kPadded;
  EXPECT_EQ(text(shape), "qkv [m 64, n 96, k 32] with B transposed, residual in bf16 -> fp32");
  shape.residual = false, shape.bias = true, shape.transpose_a = true;
  shape.alpha = 0.5f, shape.beta = -2;
  EXPECT_EQ(text(shape),
            "qkv [m 64, n 96, k 32] with A transposed with B transposed, bias in bf16 -> fp32, alpha 0.500000, beta "
            "-2.000000");
  shape = scaled();
  EXPECT_EQ(text(shape), "qkv [m 64, n 96, k 32] with B transposed, residual in e4m3 -> fp32, scaled by rows");
  shape.fast_accumulation = true, shape.beta = 2;
  EXPECT_EQ(text(shape),
            "qkv [m 64, n 96, k 32] with B transposed, residual in e4m3 -> fp32, scaled by rows, fast accumulation, "
            "beta 2.000000");
  shape = {.name = "qkv", .m = 64, .n = 96, .k = 32, .tf32 = true};
  EXPECT_EQ(text(shape), "qkv [m 64, n 96, k 32] in tf32 -> fp32");
}

/// Entries of existing tuned.json files are still found.
TEST(GemmShape, TheKeyOfTunedFilesIsAsItWas) {
  GemmShape shape = kPadded;
  shape.align_b = 16;
  EXPECT_EQ(tuned_key(shape),
            "[64, 32] pitch 32 bf16 x [32, 96] pitch 48 transposed bf16 -> [64, 96] pitch 96 fp32 + residual, "
            "aligned 256 16 256 256");
}

TEST(GemmShape, TheKeyOfAScaledProductSaysSo) {
  GemmShape shape = scaled();
  EXPECT_EQ(tuned_key(shape),
            "[64, 32] pitch 32 e4m3 x [32, 96] pitch 48 transposed e4m3 -> [64, 96] pitch 96 fp32 + residual, scaled "
            "by rows, aligned 256 256 256 256");
  shape.fast_accumulation = true;
  EXPECT_EQ(tuned_key(shape),
            "[64, 32] pitch 32 e4m3 x [32, 96] pitch 48 transposed e4m3 -> [64, 96] pitch 96 fp32 + residual, scaled "
            "by rows, fast accumulation, aligned 256 256 256 256");
}

TEST(GemmShape, TheKeyTellsApartWhatALibraryChoosesBy) {
  const auto changed = [](auto change) {
    GemmShape shape = kPadded;
    change(shape);
    return tuned_key(shape);
  };
  const std::string key = tuned_key(kPadded);
  EXPECT_NE(changed([](GemmShape& s) { s.operand = DType::f32; }), key);
  EXPECT_NE(changed([](GemmShape& s) { s.result = DType::bf16; }), key);
  EXPECT_NE(changed([](GemmShape& s) { s.transpose_a = true; }), key);
  EXPECT_NE(changed([](GemmShape& s) { s.bias = true; }), key);
  EXPECT_NE(changed([](GemmShape& s) { s.residual = false; }), key);
  EXPECT_NE(changed([](GemmShape& s) { s.accumulates = true; }), key);
  EXPECT_NE(changed([](GemmShape& s) { s.align_c = 128; }), key);
  EXPECT_NE(changed([](GemmShape& s) { s.scaling = Scaling::rows; }), key);
  EXPECT_NE(changed([](GemmShape& s) { s.scaling = Scaling::tensors; }),
            changed([](GemmShape& s) { s.scaling = Scaling::rows; }));
  EXPECT_NE(changed([](GemmShape& s) { s.e5m2_a = true; }), key);
  EXPECT_NE(changed([](GemmShape& s) { s.fast_accumulation = true; }), key);
  EXPECT_NE(changed([](GemmShape& s) { s.operand = DType::f32, s.tf32 = true; }),
            changed([](GemmShape& s) { s.operand = DType::f32; }));
  EXPECT_EQ(changed([](GemmShape& s) { s.alpha = 2, s.beta = 3, s.name = "other"; }), key);
}

}  // namespace
}  // namespace llmc
