// Norms of results, which are added to the residual stream, and the stream in the compute dtype.
#include "kernels.h"

namespace llmc {

#define LLMC_RESULT_NORM(act, stream)                                                                         \
  void rms_norm_add_##act##_##stream##_false(const act*, const float*, const stream*, stream*, float*, act*); \
  void rms_norm_add_##act##_##stream##_true(const act*, const float*, const stream*, stream*, float*, act*);  \
  void round_stream_##act##_##stream(const stream*, act*);
LLMC_RESULT_NORM(float, float)
LLMC_RESULT_NORM(bf16, float)
LLMC_RESULT_NORM(bf16, bf16)
#undef LLMC_RESULT_NORM

namespace {

constexpr int kRows = 13, kCols = 101, kPitch = 104;

/// The norm of x, added to the residual, in double precision; with `copy` rounded to Act too.
template <class Act, class Residual>
void check(void (*kernel)(const Act*, const float*, const Residual*, Residual*, float*, Act*), bool copy) {
  const auto x = random_rows<Act>(kRows, kCols, kPitch, 1, 3.0);
  const auto residual = random_rows<Residual>(kRows, kCols, kPitch, 2, 5.0);
  const auto weight = random_values<float>(kCols, 3);
  const auto [y, rstd, rounded] = on_any_threads(
      [&] {
        return std::tuple(std::vector<Residual>(x.size(), garbage<Residual>()), std::vector<float>(kRows),
                          std::vector<Act>(x.size(), garbage<Act>()));
      },
      [&](int threads, auto& out) {
        run(threads, kernel, x.data(), weight.data(), residual.data(), std::get<0>(out).data(), std::get<1>(out).data(),
            copy ? std::get<2>(out).data() : nullptr);
      });
  for (int r = 0; r < kRows; ++r) {
    double squares = 0;
    for (int c = 0; c < kCols; ++c) squares += value(x[r * kPitch + c]) * value(x[r * kPitch + c]);
    const double exact = 1 / std::sqrt(squares / kCols + static_cast<double>(1e-5f));
    EXPECT_NEAR(rstd[r], exact, 5e-7 * exact);
    for (int c = 0; c < kPitch; ++c) {
      const int at = r * kPitch + c;
      const double normed = c < kCols ? value(x[at]) * exact * weight[c] : 0;
      const double sum = c < kCols ? value(residual[at]) + normed : 0;
      const double size = std::abs(normed) + std::abs(sum);
      ASSERT_NEAR(value(y[at]), sum, tolerance<Residual>(sum, size)) << r << " " << c;
      if (copy) {
        ASSERT_NEAR(value(rounded[at]), sum, tolerance<Act>(sum, size)) << r << " " << c;
      }
    }
  }
}

TEST(ResultNorm, IsAddedToTheStream) {
  check<float, float>(rms_norm_add_float_float_false, false);
  check<bf16, float>(rms_norm_add_bf16_float_false, false);
  check<bf16, bf16>(rms_norm_add_bf16_bf16_false, false);
}

TEST(ResultNorm, WritesTheSumInTheComputeTypeToo) {
  check<float, float>(rms_norm_add_float_float_true, true);
  check<bf16, float>(rms_norm_add_bf16_float_true, true);
}

TEST(RoundStream, IsToNearest) {
  const auto x = random_rows<float>(kRows, kCols, kPitch, 4, 3.0);
  const auto y = on_any_threads(
      [&] { return std::tuple(std::vector<bf16>(x.size(), garbage<bf16>())); },
      [&](int threads, auto& out) { run(threads, round_stream_bf16_float, x.data(), std::get<0>(out).data()); });
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kPitch; ++c)
      ASSERT_EQ(value(std::get<0>(y)[r * kPitch + c]), c < kCols ? value(from_float<bf16>(x[r * kPitch + c])) : 0);
}

}  // namespace
}  // namespace llmc
