// RMSNorm forward and backward, and column sums.
#include "kernels.h"

namespace llmc {
namespace {

template <class C>
struct Rows : testing::Test {};
TYPED_TEST_SUITE(Rows, Cases);

TYPED_TEST(Rows, RmsNormForward) {
  using C = TypeParam;
  using Act = typename C::Act;
  const auto x = random_rows<Act>(C::kRows, C::kCols, C::kPitch, 1, 3.0);
  const auto weight = random_values<float>(C::kCols, 2);
  const auto [y, rstd] = on_any_threads(
      [&] { return std::tuple(std::vector<Act>(x.size(), garbage<Act>()), std::vector<float>(C::kRows)); },
      [&](int threads, auto& out) {
        run(threads, LLMC_OF(rms_norm_forward), x.data(), weight.data(), std::get<0>(out).data(),
            std::get<1>(out).data());
      });
  for (int r = 0; r < C::kRows; ++r) {
    double squares = 0;
    for (int c = 0; c < C::kCols; ++c) squares += value(x[r * C::kPitch + c]) * value(x[r * C::kPitch + c]);
    const double exact = 1 / std::sqrt(squares / C::kCols + static_cast<double>(1e-5f));
    EXPECT_NEAR(rstd[r], exact, 5e-7 * exact);
    for (int c = 0; c < C::kPitch; ++c) {
      const double out = c < C::kCols ? value(x[r * C::kPitch + c]) * exact * weight[c] : 0;
      ASSERT_NEAR(value(y[r * C::kPitch + c]), out, tolerance<Act>(out, std::abs(out))) << r << " " << c;
    }
  }
}

/// kFlag: with a residual and a recomputed forward output.
template <class C, bool kFlag, class Kernel>
void check_backward(Kernel kernel, const std::vector<typename C::Act>& forward_y, const std::vector<float>& rstd,
                    const std::vector<typename C::Act>& x, const std::vector<float>& weight, bool in_place) {
  using Act = typename C::Act;
  const auto dy = random_rows<Act>(C::kRows, C::kCols, C::kPitch, 3);
  const auto residual = random_rows<Act>(C::kRows, C::kCols, C::kPitch, 4);
  const auto [dx, partial, y] = on_any_threads(
      [&] {
        const std::vector<Act> fresh(dy.size(), garbage<Act>());
        return std::tuple(in_place ? (kFlag ? residual : dy) : fresh, std::vector<float>(C::kBlocks * C::kCols, 7.0f),
                          fresh);
      },
      [&](int threads, auto& out) {
        auto& [dx, partial, y] = out;
        const Act* from = in_place && !kFlag ? dx.data() : dy.data();
        const Act* added = kFlag ? (in_place ? dx.data() : residual.data()) : nullptr;
        run(threads, kernel, from, x.data(), weight.data(), rstd.data(), added, dx.data(), partial.data(),
            kFlag ? y.data() : nullptr);
      });
  std::vector<double> dweight(C::kCols), sizes(C::kCols), sums(C::kCols);
  for (int r = 0; r < C::kRows; ++r) {
    const auto at = [&](const auto& m, int c) { return value(m[r * C::kPitch + c]); };
    double dot = 0, size = 0;
    for (int c = 0; c < C::kCols; ++c) dot += at(dy, c) * weight[c] * at(x, c);
    for (int c = 0; c < C::kCols; ++c) size = std::max(size, std::abs(at(dy, c) * weight[c] * rstd[r]));
    for (int c = 0; c < C::kPitch; ++c) {
      if (c >= C::kCols) {
        ASSERT_EQ(at(dx, c), 0) << "padding";
        continue;
      }
      const double s = rstd[r];
      const double norm = s * (at(dy, c) * weight[c] - at(x, c) * s * s * dot / C::kCols);
      const double out = norm + (kFlag ? at(residual, c) : 0);
      ASSERT_NEAR(at(dx, c), out, tolerance<Act>(out, size + std::abs(out))) << r << " " << c;
      dweight[c] += at(dy, c) * at(x, c) * s;
      sizes[c] += std::abs(at(dy, c) * at(x, c) * s);
    }
  }
  for (int b = 0; b < C::kBlocks; ++b)
    for (int c = 0; c < C::kCols; ++c) sums[c] += partial[b * C::kCols + c];
  for (int c = 0; c < C::kCols; ++c) EXPECT_NEAR(sums[c], dweight[c], 1e-6 * sizes[c]);
  if (kFlag) {
    EXPECT_TRUE(same_bits(y, forward_y)) << "recomputed";
  }
}

TYPED_TEST(Rows, RmsNormBackward) {
  using C = TypeParam;
  using Act = typename C::Act;
  const auto x = random_rows<Act>(C::kRows, C::kCols, C::kPitch, 1, 3.0);
  const auto weight = random_values<float>(C::kCols, 2);
  std::vector<Act> y(x.size());
  std::vector<float> rstd(C::kRows);
  run(2, LLMC_OF(rms_norm_forward), x.data(), weight.data(), y.data(), rstd.data());
  for (const bool in_place : {false, true}) {
    check_backward<C, false>(LLMC_OF_FLAG(rms_norm_backward, false), y, rstd, x, weight, in_place);
    check_backward<C, true>(LLMC_OF_FLAG(rms_norm_backward, true), y, rstd, x, weight, in_place);
  }
}

TYPED_TEST(Rows, ColumnSum) {
  using C = TypeParam;
  using Act = typename C::Act;
  const auto dy = random_rows<Act>(C::kRows, C::kCols, C::kPitch, 5);
  const auto [partial] = on_any_threads(
      [&] { return std::tuple(std::vector<float>(C::kBlocks * C::kCols, 7.0f)); },
      [&](int threads, auto& out) { run(threads, LLMC_OF(column_sum), dy.data(), std::get<0>(out).data()); });
  for (int b = 0; b < C::kBlocks; ++b)
    for (int c = 0; c < C::kCols; ++c) {
      double sum = 0;
      for (int r = b * C::kRows / C::kBlocks; r < (b + 1) * C::kRows / C::kBlocks; ++r)
        sum += value(dy[r * C::kPitch + c]);
      ASSERT_NEAR(partial[b * C::kCols + c], sum, 1e-5);  // a dozen numbers of size 3
    }
}

TEST(ColumnReduce, WritesOrAdds) {
  const auto partial = random_values<float>(3 * 301, 6);
  for (const int accumulate : {0, 1}) {
    const auto [out] =
        on_any_threads([&] { return std::tuple(std::vector<float>(301, 2.0f)); },
                       [&](int threads, auto& out) {
                         run(threads, column_reduce_odd, partial.data(), std::get<0>(out).data(), accumulate);
                       });
    for (int c = 0; c < 301; ++c) {
      const float sum = (partial[c] + partial[301 + c]) + partial[602 + c];  // in this order, to the bit
      ASSERT_EQ(out[c], accumulate ? 2.0f + sum : sum);
    }
  }
}

}  // namespace
}  // namespace llmc
