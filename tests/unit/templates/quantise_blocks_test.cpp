// quantise_blocks: blocks of 32 in e4m3, along rows and down columns, as codes and as numbers; their scales in UE8M0,
// and where these lie.
#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "device/block_scales.h"
#include "device/fp8.h"
#include "kernels.h"

namespace llmc {
namespace {

constexpr int kRows = 64, kCols = 288;  // columns of two slices

/// Blocks of very different size along rows and columns, one of zeros either way. The last element of a block may be
/// its largest.
std::vector<bf16> tensor() {
  auto x = random_values<bf16>(kRows * kCols, 1);
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kCols; ++c) {
      const bool zero = (r == 1 && c < 32) || (r < 32 && c == 270);
      bf16& v = x[r * kCols + c];
      v = from_float<bf16>(zero ? 0.0f : to_float(v) * std::ldexp(1.0f, 7 * (r % 4) + 3 * (c % 4) + c / 32));
    }
  return x;
}

/// Rows of an operand with a scale for each block, and blocks of each.
constexpr int lines(bool down) { return down ? kCols : kRows; }
constexpr int blocks(bool down) { return (down ? kRows : kCols) / 32; }
/// Where element `e` of a block lies in x.
int place(bool down, int line, int block, int e) {
  return down ? (32 * block + e) * kCols + line : line * kCols + 32 * block + e;
}

/// Smallest power of two, from 2^-100 on, by which `largest` divided is at most 448.
double scale_of(double largest) {
  double scale = 0x1p-100;
  while (largest / scale > 448) scale *= 2;
  return scale;
}

template <bool kDown, class Result, class Kernel>
void check(Kernel kernel) {
  const auto x = tensor();
  const auto bytes = static_cast<std::size_t>(block_scale_bytes(lines(kDown), blocks(kDown)));
  const auto [y, scales] = on_any_threads(
      [&] { return std::tuple(std::vector<Result>(x.size(), garbage<Result>()), std::vector<e8m0>(bytes, {7})); },
      [&](int threads, auto& out) {
        auto& [y, scales] = out;
        run(threads, kernel, x.data(), y.data(), is_code<Result> ? scales.data() : nullptr);
      });
  for (int line = 0; line < lines(kDown); ++line)
    for (int block = 0; block < blocks(kDown); ++block) {
      double largest = 0;
      for (int e = 0; e < 32; ++e) largest = std::max(largest, std::abs(value(x[place(kDown, line, block, e)])));
      const double scale = scale_of(largest);
      if (is_code<Result>) {
        const auto at = static_cast<std::size_t>(block_scale_offset(line, block, blocks(kDown)));
        ASSERT_EQ(to_float(scales.at(at)), scale) << line << " " << block;
      }
      for (int e = 0; e < 32; ++e) {
        const int at = place(kDown, line, block, e);
        const double number = to_float(from_float<e4m3>(static_cast<float>(value(x[at]) / scale)));
        ASSERT_EQ(value(y[at]), is_code<Result> ? number : number * scale) << line << " " << block << " " << e;
      }
    }
}

TEST(QuantiseBlocks, GivesTheNearestNumbersAndCodesAlongRows) {
  check<false, bf16>(quantise_blocks_bf16_false);
  check<false, e4m3>(quantise_blocks_e4m3_false);
}

TEST(QuantiseBlocks, GivesTheNearestNumbersAndCodesDownColumns) {
  check<true, bf16>(quantise_blocks_bf16_true);
  check<true, e4m3>(quantise_blocks_e4m3_true);
}

/// The block alone becomes NaN, and with it all of a row or column of a product.
TEST(QuantiseBlocks, PassesOnWhatIsNotFinite) {
  constexpr int kRow = 37, kCol = 260;
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    auto x = tensor();
    x[kRow * kCols + kCol] = from_float<bf16>(bad);
    std::vector<bf16> along(x.size()), down(x.size());
    run(2, quantise_blocks_bf16_false, x.data(), along.data(), nullptr);
    run(2, quantise_blocks_bf16_true, x.data(), down.data(), nullptr);
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kCols; ++c) {
        ASSERT_EQ(std::isnan(value(along[r * kCols + c])), r == kRow && c / 32 == kCol / 32) << r << " " << c;
        ASSERT_EQ(std::isnan(value(down[r * kCols + c])), c == kCol && r / 32 == kRow / 32) << r << " " << c;
      }
  }
}

TEST(BlockScales, AllCodesArePowersOfTwo) {
  for (int code = 0; code < 255; ++code) {
    const e8m0 scale{static_cast<unsigned char>(code)};
    ASSERT_EQ(to_float(scale), std::ldexp(1.0f, code - 127)) << code;
    ASSERT_EQ(from_float<e8m0>(to_float(scale)).bits, code);
  }
  EXPECT_TRUE(std::isnan(to_float(e8m0{255})));
  EXPECT_EQ(from_float<e8m0>(std::numeric_limits<float>::quiet_NaN()).bits, 255);
}

TEST(BlockScales, LieInTilesOf128RowsBy4) {
  EXPECT_EQ(block_scale_bytes(128, 4), 512);
  EXPECT_EQ(block_scale_bytes(129, 4), 1024);
  EXPECT_EQ(block_scale_bytes(128, 5), 1024);
  EXPECT_EQ(block_scale_bytes(1, 1), 512);
  EXPECT_EQ(block_scale_bytes(300, 9), 384 * 12);
  // Each position of a tile once, by the formula of the manual.
  std::set<long long> found;
  for (int row = 0; row < 128; ++row)
    for (int scale = 0; scale < 4; ++scale) {
      const long long at = block_scale_offset(row, scale, 4);
      ASSERT_EQ(at, (row % 32) * 16 + (row / 32) * 4 + scale);
      found.insert(at);
    }
  EXPECT_EQ(found.size(), 512u);
  // Tiles of a row of tiles are neighbours; of nine scales there are three.
  EXPECT_EQ(block_scale_offset(0, 4, 9), 512);
  EXPECT_EQ(block_scale_offset(128, 0, 9), 3 * 512);
  EXPECT_EQ(block_scale_offset(299, 8, 9), (2 * 3 + 2) * 512 + (299 % 32) * 16 + (299 % 128 / 32) * 4);
}

}  // namespace
}  // namespace llmc
