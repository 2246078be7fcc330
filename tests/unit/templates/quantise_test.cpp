// quantise: rows in e4m3, as codes and as numbers, against a search among all codes.
#include <algorithm>
#include <limits>

#include "device/fp8.h"
#include "kernels.h"

namespace llmc {
namespace {

/// Returns the code nearest to v by comparing it with each of them; of two the even one.
int nearest_code(double v) {
  int best = 0;
  for (int code = 1; code < 0x7f; ++code) {
    const auto distance = [&](int of) {
      return std::abs(static_cast<double>(to_float(e4m3{static_cast<unsigned char>(of)})) - std::abs(v));
    };
    if (distance(code) < distance(best) || (distance(code) == distance(best) && code % 2 == 0)) best = code;
  }
  return std::signbit(v) ? best | 0x80 : best;
}

/// Rows of very different size, the second of zeros; columns of different size.
std::vector<bf16> rows(int count, int cols, int pitch) {
  auto x = random_rows<bf16>(count, cols, pitch, 1);
  for (int r = 0; r < count; ++r)
    for (int c = 0; c < cols; ++c) {
      bf16& v = x[r * pitch + c];
      v = from_float<bf16>(r == 1 ? 0.0f : to_float(v) * std::ldexp(1.0f, 9 * (r % 7) - 30 - c % 5));
    }
  return x;
}

template <class Result, bool kFolded, class Kernel>
void check(Kernel kernel, int count, int cols, int pitch) {
  const auto x = rows(count, cols, pitch);
  const auto factors = powers(cols);
  const auto [y, scales] = on_any_threads(
      [&] { return std::tuple(std::vector<Result>(x.size(), garbage<Result>()), std::vector<float>(count, 7.0f)); },
      [&](int threads, auto& out) {
        auto& [y, scales] = out;
        run(threads, kernel, x.data(), kFolded ? factors.data() : nullptr, y.data(), scales.data());
      });
  for (int r = 0; r < count; ++r) {
    double largest = 0;
    const auto factor = [&](int c) { return kFolded ? static_cast<double>(to_float(factors[c])) : 1.0; };
    for (int c = 0; c < cols; ++c) largest = std::max(largest, std::abs(value(x[r * pitch + c]) * factor(c)));
    const double scale = scales[r];
    int exponent = 0;
    ASSERT_EQ(std::frexp(scale, &exponent), 0.5) << "no power of two";
    if (largest > 0) {
      ASSERT_TRUE(largest / scale > 224 && largest / scale <= 448) << r;
    }
    for (int c = 0; c < pitch; ++c) {
      const auto found = y[r * pitch + c];
      if (c >= cols) {
        ASSERT_EQ(value(found), 0) << "padding";
        continue;
      }
      const int code = nearest_code(value(x[r * pitch + c]) * factor(c) / scale);
      const double number = value(to_float(e4m3{static_cast<unsigned char>(code)}));
      ASSERT_EQ(value(found), is_code<Result> ? number : number * scale / factor(c)) << r << " " << c;
    }
  }
}

TEST(Quantise, GivesTheNearestNumbers) {
  check<bf16, false>(quantise_odd_bf16_false, 13, 101, 104);
  check<bf16, false>(quantise_wide_bf16_false, 40, 256, 272);
}

TEST(Quantise, GivesTheNearestCodes) {
  check<e4m3, false>(quantise_odd_e4m3_false, 13, 101, 104);
  check<e4m3, false>(quantise_wide_e4m3_false, 40, 256, 272);
}

TEST(Quantise, FoldsTheOtherOperandsScales) {
  check<bf16, true>(quantise_odd_bf16_true, 13, 101, 104);
  check<bf16, true>(quantise_wide_bf16_true, 40, 256, 272);
  check<e4m3, true>(quantise_odd_e4m3_true, 13, 101, 104);
  check<e4m3, true>(quantise_wide_e4m3_true, 40, 256, 272);
}

/// Rows of different size after quantise, with one scale for all of them.
template <bool kFolded, class Quantise, class Rescale>
void check_shared(Quantise quantise, Rescale rescale) {
  constexpr int kRows = 13, kCols = 101, kPitch = 104;
  const auto x = rows(kRows, kCols, kPitch);
  const auto factors = powers(kCols);
  const bf16* const given = kFolded ? factors.data() : nullptr;
  std::vector<bf16> y(x.size());
  std::vector<float> scales(kRows);
  run(2, quantise, x.data(), given, y.data(), scales.data());
  const auto [shared, z] = on_any_threads(
      [&] { return std::tuple(std::vector<float>(1, 7.0f), std::vector<bf16>(x.size(), garbage<bf16>())); },
      [&](int threads, auto& out) {
        auto& [shared, z] = out;
        run(threads, largest_scale_odd, scales.data(), shared.data());
        run(threads, rescale, y.data(), given, shared.data(), z.data());
      });
  EXPECT_EQ(shared[0], *std::max_element(scales.begin(), scales.end()));
  int changed = 0;
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kPitch; ++c) {
      const double found = value(z[r * kPitch + c]), before = value(y[r * kPitch + c]);
      if (c >= kCols) {
        ASSERT_EQ(found, 0) << "padding";
        continue;
      }
      const double factor = kFolded ? to_float(factors[c]) : 1;
      const int code = nearest_code(before * factor / shared[0]);
      ASSERT_EQ(found, value(to_float(e4m3{static_cast<unsigned char>(code)})) * shared[0] / factor) << r << " " << c;
      changed += found != before;
      if (scales[r] == shared[0]) {
        ASSERT_EQ(found, before) << "the largest row";
      }
    }
  EXPECT_GT(changed, 0) << "no small row has lost bits";
}

TEST(Quantise, SharesTheLargestScale) {
  check_shared<false>(quantise_odd_bf16_false, rescale_rows_odd_false);
  check_shared<true>(quantise_odd_bf16_true, rescale_rows_odd_true);
}

/// The row's own gradient passes through a column of dy that is multiplied by its scale.
TEST(Quantise, NoRowOfAWeightHasATinyScale) {
  auto x = rows(13, 101, 104);
  std::vector<bf16> y(x.size()), plain(x.size());
  std::vector<bf16> stored(13);
  std::vector<float> scales(13), plain_scales(13);
  run(2, quantise_odd_weight, x.data(), nullptr, y.data(), stored.data());
  std::ranges::transform(stored, scales.begin(), [](bf16 v) { return to_float(v); });
  run(2, quantise_odd_bf16_false, x.data(), nullptr, plain.data(), plain_scales.data());
  EXPECT_EQ(scales[1], 0x1p-16f) << "a row of zeros";
  int raised = 0;
  for (int r = 0; r < 13; ++r) {
    EXPECT_EQ(scales[r], std::max(plain_scales[r], 0x1p-16f));
    raised += scales[r] != plain_scales[r];
    for (int c = 0; c < 101 && scales[r] == plain_scales[r]; ++c)
      ASSERT_EQ(y[r * 104 + c].bits, plain[r * 104 + c].bits) << r << " " << c;
  }
  EXPECT_TRUE(raised > 1 && raised < 13);
}

/// A product of the row must be NaN, so that the update is skipped.
TEST(Quantise, PassesOnWhatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    auto x = rows(13, 101, 104);
    x[5 * 104 + 17] = from_float<bf16>(bad);
    std::vector<bf16> y(x.size());
    std::vector<float> scales(13);
    run(2, quantise_odd_bf16_false, x.data(), nullptr, y.data(), scales.data());
    for (int r = 0; r < 13; ++r)
      EXPECT_EQ(
          std::any_of(y.begin() + r * 104, y.begin() + r * 104 + 101, [](bf16 v) { return std::isnan(value(v)); }),
          r == 5);
    std::vector<e4m3> codes(x.size());
    run(2, quantise_odd_e4m3_false, x.data(), nullptr, codes.data(), scales.data());
    EXPECT_TRUE(std::isnan(scales[5]) || std::isnan(value(codes[5 * 104 + 17])));
  }
}

}  // namespace
}  // namespace llmc
