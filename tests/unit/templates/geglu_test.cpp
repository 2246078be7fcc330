// GeGLU, forward and backward, against GELU's tanh formula.
#include "kernels.h"

namespace llmc {
namespace {

template <class C>
struct Geglu : testing::Test {};
TYPED_TEST_SUITE(Geglu, Cases);

/// GELU, its slope, and the magnitudes to which errors of the fp32 arithmetic are relative.
struct Gelu {
  double value, slope, size, terms;

  explicit Gelu(double x) {
    const double root = std::sqrt(2 / 3.14159265358979323846), h = root * (x + 0.044715 * x * x * x);
    const double first = 1 / (1 + std::exp(-2 * h)), other = 1 / (1 + std::exp(2 * h));  // 0.5 (1 +- tanh(h))
    const double second = 2 * x * first * other * root * (1 + 0.134145 * x * x);
    const double rounding = 1 + std::abs(h);  // h's, in an exponent
    value = x * first, slope = first + second;
    size = std::abs(x) * first * rounding, terms = (first + std::abs(second)) * rounding;
  }
};

/// gate_up rows: gate at 0, up at kPitch, garbage in the padding of both.
template <class C>
std::vector<typename C::Act> gates() {
  auto values = random_rows<typename C::Act>(2 * C::kRows, C::kCols, C::kPitch, 1, 2.0);
  values[0] = from_float<typename C::Act>(-95.0f);  // past the saturation of exp
  values[1] = from_float<typename C::Act>(95.0f);
  return values;
}

TYPED_TEST(Geglu, Forward) {
  using C = TypeParam;
  using Act = typename C::Act;
  const auto in = gates<C>();
  const auto [out] = on_any_threads(
      [&] { return std::tuple(std::vector<Act>(C::kRows * C::kPitch, garbage<Act>())); },
      [&](int threads, auto& out) { run(threads, LLMC_OF(geglu_forward), in.data(), std::get<0>(out).data()); });
  for (int r = 0; r < C::kRows; ++r)
    for (int c = 0; c < C::kPitch; ++c) {
      const int gate = 2 * r * C::kPitch + c;
      const Gelu gelu(value(in[gate]));
      const double up = value(in[gate + C::kPitch]), exact = c < C::kCols ? gelu.value * up : 0;
      ASSERT_NEAR(value(out[r * C::kPitch + c]), exact, tolerance<Act>(exact, gelu.size * std::abs(up) + 1e-9))
          << r << " " << c;
    }
}

template <class C, bool kFlag, class Kernel, class Forward>
void check(Kernel kernel, Forward forward, bool in_place) {
  using Act = typename C::Act;
  const auto in = gates<C>();
  const auto dout = random_rows<Act>(C::kRows, C::kCols, C::kPitch, 2);
  std::vector<Act> expected(dout.size());
  run(1, forward, in.data(), expected.data());
  const auto [d, out] = on_any_threads(
      [&] {
        return std::tuple(in_place ? in : std::vector<Act>(in.size(), garbage<Act>()),
                          std::vector<Act>(dout.size(), garbage<Act>()));
      },
      [&](int threads, auto& buffers) {
        auto& [d, out] = buffers;
        run(threads, kernel, dout.data(), in_place ? d.data() : in.data(), d.data(), kFlag ? out.data() : nullptr);
      });
  for (int r = 0; r < C::kRows; ++r)
    for (int c = 0; c < C::kPitch; ++c) {
      const int gate = 2 * r * C::kPitch + c, up = gate + C::kPitch;
      if (c >= C::kCols) {
        ASSERT_EQ(value(d[gate]), 0) << "padding";
        ASSERT_EQ(value(d[up]), 0) << "padding";
        continue;
      }
      const Gelu gelu(value(in[gate]));
      const double u = value(in[up]), y = value(dout[r * C::kPitch + c]);
      ASSERT_NEAR(value(d[gate]), y * u * gelu.slope,
                  tolerance<Act>(y * u * gelu.slope, std::abs(y * u) * gelu.terms + 1e-9));
      ASSERT_NEAR(value(d[up]), y * gelu.value, tolerance<Act>(y * gelu.value, std::abs(y) * gelu.size + 1e-9));
    }
  if (kFlag) {
    EXPECT_TRUE(same_bits(out, expected)) << "recomputed";
  }
}

TYPED_TEST(Geglu, Backward) {
  for (const bool in_place : {false, true}) {
    check<TypeParam, false>(LLMC_OF_FLAG(geglu_backward, false), LLMC_OF(geglu_forward), in_place);
    check<TypeParam, true>(LLMC_OF_FLAG(geglu_backward, true), LLMC_OF(geglu_forward), in_place);
  }
}

}  // namespace
}  // namespace llmc
