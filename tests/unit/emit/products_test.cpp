// Constants of matrix products, as text and as the compiler reads it.
#include <gtest/gtest.h>

#include "compiler/emit/product_printer.h"

namespace llmc::emit {
namespace {

#define LLMC_TEXT_OF(...) #__VA_ARGS__
#define LLMC_TEXT(...) LLMC_TEXT_OF(__VA_ARGS__)

// clang-format off
#define LLMC_PLAIN .name = "qkv", .m = 64, .n = 96, .k = 32, .transpose_b = true, .pitch_a = 32, .pitch_b = 32, \
  .pitch_d = 96, .operand = DType::bf16, .result = DType::bf16, .bias = true
#define LLMC_WITH_FACTORS .name = "polynomial", .m = 64, .n = 64, .k = 64, .pitch_a = 64, .pitch_b = 64, \
  .pitch_d = 64, .operand = DType::bf16, .alpha = 2.0f, .beta = -4.775f, .residual = true
#define LLMC_SCALED .name = "gate_up", .m = 64, .n = 96, .k = 32, .transpose_b = true, .pitch_a = 32, .pitch_b = 32, \
  .pitch_d = 96, .operand = DType::e4m3, .result = DType::bf16, .scaling = Scaling::rows, .fast_accumulation = true
#define LLMC_OF_GRADIENT .name = "gate_up_dgrad", .m = 64, .n = 96, .k = 32, .transpose_b = true, .pitch_a = 32, \
  .pitch_b = 32, .pitch_d = 96, .operand = DType::e4m3, .e5m2_a = true, .result = DType::bf16, \
  .scaling = Scaling::tensors
// clang-format on

std::string printed(const char* name, GemmShape shape) {
  plan::Plan plan;
  plan.products.push_back({.name = name, .shape = shape});
  SourceWriter out;
  print_products(out, plan);
  return out.take();
}

TEST(Products, AreInitialisersOfWhatTheyAre) {
  const std::string before = "// Row-major matrix products of the step; pitches are elements from row to row.\n";
  EXPECT_EQ(printed("qkv", {LLMC_PLAIN}), before + "inline constexpr GemmShape kQkv = {" LLMC_TEXT(LLMC_PLAIN) "};\n"
                                                   "inline constexpr GemmShape kProducts[] = {kQkv};\n");
  EXPECT_EQ(printed("polynomial", {LLMC_WITH_FACTORS}),
            before + "inline constexpr GemmShape kPolynomial = {" LLMC_TEXT(LLMC_WITH_FACTORS) "};\n"
                     "inline constexpr GemmShape kProducts[] = {kPolynomial};\n");
  EXPECT_EQ(printed("gate_up", {LLMC_SCALED}), before +
                                                   "inline constexpr GemmShape kGateUp = {" LLMC_TEXT(LLMC_SCALED) "};\n"
                                                   "inline constexpr GemmShape kProducts[] = {kGateUp};\n");
  EXPECT_EQ(printed("gate_up_dgrad", {LLMC_OF_GRADIENT}),
            before + "inline constexpr GemmShape kGateUpDgrad = {" LLMC_TEXT(LLMC_OF_GRADIENT) "};\n"
                     "inline constexpr GemmShape kProducts[] = {kGateUpDgrad};\n");
}

TEST(Products, AreNamedByWhatTheyMultiply) {
  EXPECT_EQ(product_text({.name = "qkv", .shape = {LLMC_PLAIN}}), "[64, 32] x [96, 32]^T -> [64, 96] bf16 + bias");
  EXPECT_EQ(product_text({.name = "polynomial", .shape = {LLMC_WITH_FACTORS}}),
            "[64, 64] x [64, 64] -> [64, 64] fp32, alpha 2.000000, beta -4.775000 + residual");
  EXPECT_EQ(product_text({.name = "gate_up", .shape = {LLMC_SCALED}}),
            "[64, 32] x [96, 32]^T e4m3 -> [64, 96] bf16, scaled by rows, fast accumulation");
  EXPECT_EQ(product_text({.name = "gate_up_dgrad", .shape = {LLMC_OF_GRADIENT}}),
            "[64, 32] x [96, 32]^T e5m2 x e4m3 -> [64, 96] bf16, scaled by tensors");
}

}  // namespace
}  // namespace llmc::emit
