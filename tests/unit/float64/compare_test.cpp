#include "compiler/tools/float64/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/tools/float64/run_errors.h"

namespace llmc::float64 {
namespace {

Matrix row(std::vector<double>& elements) {
  const auto n = static_cast<std::int64_t>(elements.size());
  return {elements.data(), 1, n, n};
}

TEST(Compare, FindsTheElementThatIsFarthestOff) {
  std::vector<double> exact = {1, 2, 4}, found = {1, 2 + 8 * kFp32, 4 - 64 * kFp32};
  OpValue value;
  value.matrix = row(exact);
  value.relative = 3 * kFp32;  // and half a unit of fp32 itself: 4
  const Worst worst = compare(value, row(found), DType::f32);
  EXPECT_EQ(worst.column, 2);
  EXPECT_NEAR(worst.of_bound, 64.0 / 16, 1e-9);
  EXPECT_EQ(worst.exact, 4);
  EXPECT_EQ(compare(value, value.matrix, DType::f32).of_bound, 0);
}

TEST(Compare, AScaleIsOfAPartOfARow) {
  std::vector<double> exact = {0, 0, 0, 0}, found = {0, 3 * kFp32, 0, 3 * kFp32};
  OpValue value;
  value.matrix = row(exact);
  value.noise = kFp32;
  value.scales(2) = {4, 2};
  const Worst worst = compare(value, row(found), DType::f32);
  EXPECT_EQ(worst.column, 3);
  EXPECT_NEAR(worst.of_bound, 1.5, 1e-9);
}

TEST(Compare, RoundingToBf16IsNoError) {
  std::vector<double> exact = {1.00390624}, found = {1.0};  // just below the midpoint to 1.0078125
  OpValue value;
  value.matrix = row(exact);
  EXPECT_LE(compare(value, row(found), DType::bf16).of_bound, 1);
  EXPECT_GT(compare(value, row(found), DType::f32).of_bound, 1000);
}

TEST(Compare, AnExactResultHasNoTolerance) {
  std::vector<double> exact = {16}, found = {15};  // neighbours in e4m3: within half a unit of 2^-3
  OpValue value;
  value.matrix = row(exact);
  value.noise = 0;
  EXPECT_LE(compare(value, row(found), DType::e4m3).of_bound, 1);
  value.exact = true;
  EXPECT_GT(compare(value, row(found), DType::e4m3).of_bound, 1e30);
}

TEST(Compare, AQuantisedResultLiesBetweenTwoNumbers) {
  std::vector<double> exact = {16, 32}, found = {18, 32};
  OpValue value;
  value.matrix = row(exact);
  value.least = {16, 32}, value.most = {18, 32};
  EXPECT_EQ(compare(value, row(found), DType::e4m3).of_bound, 0);
  found = {16, 36};
  EXPECT_GT(compare(value, row(found), DType::e4m3).of_bound, 1e30);
  found = {std::nan(""), 32};
  EXPECT_TRUE(std::isinf(compare(value, row(found), DType::e4m3).of_bound));
}

TEST(Compare, WhatIsNoNumberIsOff) {
  std::vector<double> exact = {1, -std::numeric_limits<double>::infinity()}, found = {std::nan(""), exact[1]};
  OpValue value;
  value.matrix = row(exact);
  EXPECT_TRUE(std::isinf(compare(value, row(found), DType::f32).of_bound));
  found[0] = 1;
  EXPECT_EQ(compare(value, row(found), DType::f32).of_bound, 0) << "both are -infinity";
}

/// A gradient of 1e-20, whose squares are below the smallest normal number.
TEST(Compare, TermsThatAreFlushedToZero) {
  std::vector<double> exact = {100 * 0.5 * kFlushed}, found = {0};
  OpValue value;
  value.matrix = row(exact);
  EXPECT_GT(compare(value, row(found), DType::f32).of_bound, 1);
  value.flushed = 100 * kFlushed;
  EXPECT_LE(compare(value, row(found), DType::f32).of_bound, 1);
}

TEST(Compare, PartialSumsCountTogether) {
  std::vector<double> exact = {6, 0, 0}, found = {1, 2, 3};  // one column of three rows
  OpValue value;
  value.matrix = {exact.data(), 3, 1, 1};
  value.sums_alone = true;
  EXPECT_EQ(compare(value, {found.data(), 3, 1, 1}, DType::f32).of_bound, 0);
  found[2] = 4;
  EXPECT_GT(compare(value, {found.data(), 3, 1, 1}, DType::f32).of_bound, 1);
}

TEST(Distance, IsNormOverNorm) {
  std::vector<double> exact = {3, 4}, found = {3, 4.5}, zero = {0, 0};
  Distance distance;
  distance.add(row(exact), row(found));
  EXPECT_DOUBLE_EQ(distance.relative(), 0.1);
  Distance of_zero;
  of_zero.add(row(zero), row(found));
  EXPECT_TRUE(std::isinf(of_zero.relative()));
}

TEST(Bounds, GrowWithTheErrorsOfTheProducts) {
  spec::Spec fp32, bf16x3, tf32, bf16;
  fp32.compute = bf16x3.compute = tf32.compute = DType::f32;
  bf16x3.matmul = spec::Matmul::bf16x3;
  tf32.matmul = spec::Matmul::tf32;
  for (std::size_t i = 0; i < kTensorClasses; ++i) {
    const auto tensors = static_cast<TensorClass>(i);
    EXPECT_LT(bound_of(tensors, fp32), bound_of(tensors, bf16x3)) << name_of(tensors);
    EXPECT_LT(bound_of(tensors, bf16x3), bound_of(tensors, tf32)) << name_of(tensors);
    EXPECT_LT(bound_of(tensors, tf32), bound_of(tensors, bf16)) << name_of(tensors);
  }
}

}  // namespace
}  // namespace llmc::float64
