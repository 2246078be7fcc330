// largest_magnitude and quantise_by_tensor: tensors in 8 bits, as codes and as numbers, against a search among all
// codes.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "device/fp8.h"
#include "kernels.h"

namespace llmc {
namespace {

constexpr int kRows = 13, kCols = 101, kPitch = 104, kBlocks = 5;

/// Returns the finite number of this type nearest to v by comparing it with each of them; of two that of the even code.
template <class Code>
double nearest_number(double v) {
  constexpr int kCodes = std::is_same_v<Code, e4m3> ? 0x7f : 0x7c;
  const auto number = [](int code) { return static_cast<double>(to_float(Code{static_cast<unsigned char>(code)})); };
  int best = 0;
  for (int code = 1; code < kCodes; ++code) {
    const double distance = std::abs(number(code) - std::abs(v)), least = std::abs(number(best) - std::abs(v));
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  return std::copysign(number(best), v);
}

/// Rows of very different size, the second of zeros; the largest number is in the last row.
std::vector<bf16> tensor() {
  auto x = random_rows<bf16>(kRows, kCols, kPitch, 1);
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kCols; ++c) {
      bf16& v = x[r * kPitch + c];
      v = from_float<bf16>(r == 1 ? 0.0f : to_float(v) * std::ldexp(1.0f, r - 20 - c % 5));
    }
  return x;
}

/// Largest magnitudes of blocks of rows of x, as the kernel finds them.
std::vector<float> maxima_of(const std::vector<bf16>& x) {
  const auto [maxima] = on_any_threads(
      [&] { return std::tuple(std::vector<float>(kBlocks, 7.0f)); },
      [&](int threads, auto& out) { run(threads, largest_magnitude_odd, x.data(), std::get<0>(out).data()); });
  return maxima;
}

TEST(QuantiseByTensor, FindsTheLargestOfEachBlock) {
  const auto x = tensor();
  const auto maxima = maxima_of(x);
  for (int block = 0; block < kBlocks; ++block) {
    float largest = 0;
    for (int r = block * kRows / kBlocks; r < (block + 1) * kRows / kBlocks; ++r)
      for (int c = 0; c < kCols; ++c) largest = std::max(largest, std::abs(to_float(x[r * kPitch + c])));
    EXPECT_EQ(maxima[block], largest) << block;
  }
}

template <class Code, class Result, class Kernel>
void check(Kernel kernel) {
  const auto x = tensor();
  const auto maxima = maxima_of(x);
  const auto [y, scale] = on_any_threads(
      [&] { return std::tuple(std::vector<Result>(x.size(), garbage<Result>()), std::vector<float>(1, 7.0f)); },
      [&](int threads, auto& out) {
        auto& [y, scale] = out;
        run(threads, kernel, x.data(), maxima.data(), y.data(), scale.data());
      });
  double largest = 0;
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kCols; ++c) largest = std::max(largest, std::abs(value(x[r * kPitch + c])));
  const double most = std::is_same_v<Code, e4m3> ? kLargestE4m3 : kLargestE5m2;
  int exponent = 0;
  ASSERT_EQ(std::frexp(scale[0], &exponent), 0.5) << "no power of two";
  ASSERT_TRUE(largest / scale[0] > most / 2 && largest / scale[0] <= most);
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kPitch; ++c) {
      const double found = value(y[r * kPitch + c]);
      if (c >= kCols) {
        ASSERT_EQ(found, 0) << "padding";
        continue;
      }
      const double number = nearest_number<Code>(value(x[r * kPitch + c]) / scale[0]);
      ASSERT_EQ(found, is_code<Result> ? number : number * scale[0]) << r << " " << c;
    }
}

TEST(QuantiseByTensor, GivesTheNearestNumbersAndCodes) {
  check<e4m3, bf16>(quantise_by_tensor_e4m3_numbers);
  check<e5m2, bf16>(quantise_by_tensor_e5m2_numbers);
  check<e4m3, e4m3>(quantise_by_tensor_e4m3_codes);
  check<e5m2, e5m2>(quantise_by_tensor_e5m2_codes);
}

/// All of a product must be NaN, so that the update is skipped.
TEST(QuantiseByTensor, PassesOnWhatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    auto x = tensor();
    x[5 * kPitch + 17] = from_float<bf16>(bad);
    const auto maxima = maxima_of(x);
    std::vector<bf16> y(x.size());
    std::vector<float> scale(1);
    run(2, quantise_by_tensor_e5m2_numbers, x.data(), maxima.data(), y.data(), scale.data());
    EXPECT_TRUE(std::isnan(scale[0]));
    EXPECT_TRUE(std::isnan(value(y[0])) && std::isnan(value(y[12 * kPitch])));
  }
}

}  // namespace
}  // namespace llmc
