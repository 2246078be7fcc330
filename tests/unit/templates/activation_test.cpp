// Activations of the MLP beside SwiGLU's, with a gate and without, forward and backward, against their formulas.
#include "kernels.h"

namespace llmc {

#define LLMC_QUANTISED(of)                                                                                       \
  void swiglu_forward_quantised_##of(const bf16*, bf16*, e4m3*, float*);                                         \
  void swiglu_backward_quantised_##of(const bf16*, const bf16*, const bf16*, bf16*, e4m3*, float*, bf16*, e4m3*, \
                                      float*);
LLMC_QUANTISED(gelu)
LLMC_QUANTISED(relu2)
#undef LLMC_QUANTISED

namespace {

template <class C>
struct Activations : testing::Test {};
TYPED_TEST_SUITE(Activations, Cases);

/// An activation, its slope, and the magnitudes to which errors of the fp32 arithmetic are relative.
struct Bent {
  double value, slope, size, terms;
};

/// By its tanh formula.
struct Gelu : Bent {
  explicit Gelu(double x) {
    const double root = std::sqrt(2 / 3.14159265358979323846), h = root * (x + 0.044715 * x * x * x);
    const double first = 1 / (1 + std::exp(-2 * h)), other = 1 / (1 + std::exp(2 * h));  // 0.5 (1 +- tanh(h))
    const double second = 2 * x * first * other * root * (1 + 0.134145 * x * x);
    const double rounding = 1 + std::abs(h);  // h's, in an exponent
    value = x * first, slope = first + second;
    size = std::abs(x) * first * rounding, terms = (first + std::abs(second)) * rounding;
  }
};

struct Silu : Bent {
  explicit Silu(double x) {
    const double s = 1 / (1 + std::exp(-x));
    value = x * s, slope = s * (1 + x * (1 - s)), size = std::abs(value), terms = s * (1 + std::abs(x));
  }
};

struct Relu2 : Bent {
  explicit Relu2(double x) {
    const double above = std::max(x, 0.0);
    value = size = above * above, slope = terms = 2 * above;
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

template <class C, class Of, class Kernel>
void check_forward(Kernel kernel) {
  using Act = typename C::Act;
  const auto in = gates<C>();
  const auto [out] =
      on_any_threads([&] { return std::tuple(std::vector<Act>(C::kRows * C::kPitch, garbage<Act>())); },
                     [&](int threads, auto& out) { run(threads, kernel, in.data(), std::get<0>(out).data()); });
  for (int r = 0; r < C::kRows; ++r)
    for (int c = 0; c < C::kPitch; ++c) {
      const int gate = 2 * r * C::kPitch + c;
      const Of act(value(in[gate]));
      const double up = value(in[gate + C::kPitch]), exact = c < C::kCols ? act.value * up : 0;
      ASSERT_NEAR(value(out[r * C::kPitch + c]), exact, tolerance<Act>(exact, act.size * std::abs(up) + 1e-9))
          << r << " " << c;
    }
}

TYPED_TEST(Activations, Forward) {
  check_forward<TypeParam, Gelu>(LLMC_OF(swiglu_forward_gelu));
  check_forward<TypeParam, Relu2>(LLMC_OF(swiglu_forward_relu2));
}

template <class C, class Of, bool kFlag, class Kernel, class Forward>
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
      const Of act(value(in[gate]));
      const double u = value(in[up]), y = value(dout[r * C::kPitch + c]);
      ASSERT_NEAR(value(d[gate]), y * u * act.slope,
                  tolerance<Act>(y * u * act.slope, std::abs(y * u) * act.terms + 1e-9));
      ASSERT_NEAR(value(d[up]), y * act.value, tolerance<Act>(y * act.value, std::abs(y) * act.size + 1e-9));
    }
  if (kFlag) {
    EXPECT_TRUE(same_bits(out, expected)) << "recomputed";
  }
}

TYPED_TEST(Activations, Backward) {
  using C = TypeParam;
  for (const bool in_place : {false, true}) {
    check<C, Gelu, false>(LLMC_OF_FLAG(swiglu_backward_gelu, false), LLMC_OF(swiglu_forward_gelu), in_place);
    check<C, Gelu, true>(LLMC_OF_FLAG(swiglu_backward_gelu, true), LLMC_OF(swiglu_forward_gelu), in_place);
    check<C, Relu2, false>(LLMC_OF_FLAG(swiglu_backward_relu2, false), LLMC_OF(swiglu_forward_relu2), in_place);
    check<C, Relu2, true>(LLMC_OF_FLAG(swiglu_backward_relu2, true), LLMC_OF(swiglu_forward_relu2), in_place);
  }
}

/// Without a gate, in place: rows of x in place of gate and up.
template <class C, class Of, class Forward, class Backward, class Again>
void check_ungated(Forward forward, Backward backward, Again again) {
  using Act = typename C::Act;
  auto x = random_rows<Act>(C::kRows, C::kCols, C::kPitch, 1, 2.0);
  x[0] = from_float<Act>(-95.0f), x[1] = from_float<Act>(95.0f);
  const auto dout = random_rows<Act>(C::kRows, C::kCols, C::kPitch, 2);
  const auto [y, dx, dx_again, y_again] = on_any_threads(
      [&] { return std::tuple(std::vector<Act>(x.size(), garbage<Act>()), x, x, x); },
      [&](int threads, auto& out) {
        auto& [y, dx, dx_again, y_again] = out;
        run(threads, forward, x.data(), y.data());
        run(threads, backward, dout.data(), static_cast<const Act*>(dx.data()), dx.data(), static_cast<Act*>(nullptr));
        run(threads, again, dout.data(), x.data(), dx_again.data(), y_again.data());
      });
  EXPECT_TRUE(same_bits(y, y_again)) << "recomputed";
  EXPECT_TRUE(same_bits(dx, dx_again));
  for (int r = 0; r < C::kRows; ++r)
    for (int c = 0; c < C::kPitch; ++c) {
      const int at = r * C::kPitch + c;
      if (c >= C::kCols) {
        ASSERT_EQ(value(y[at]), 0) << "padding";
        ASSERT_EQ(value(dx[at]), 0) << "padding";
        continue;
      }
      const Of act(value(x[at]));
      const double d = value(dout[at]);
      ASSERT_NEAR(value(y[at]), act.value, tolerance<Act>(act.value, act.size + 1e-9)) << r << " " << c;
      ASSERT_NEAR(value(dx[at]), d * act.slope, tolerance<Act>(d * act.slope, std::abs(d) * act.terms + 1e-9));
    }
}

TYPED_TEST(Activations, WithoutAGate) {
  check_ungated<TypeParam, Silu>(LLMC_OF(activation_forward_silu), LLMC_OF_FLAG(activation_backward_silu, false),
                                 LLMC_OF_FLAG(activation_backward_silu, true));
  check_ungated<TypeParam, Gelu>(LLMC_OF(activation_forward_gelu), LLMC_OF_FLAG(activation_backward_gelu, false),
                                 LLMC_OF_FLAG(activation_backward_gelu, true));
  check_ungated<TypeParam, Relu2>(LLMC_OF(activation_forward_relu2), LLMC_OF_FLAG(activation_backward_relu2, false),
                                  LLMC_OF_FLAG(activation_backward_relu2, true));
}

/// Kernels that quantise have the numbers of those that do not.
template <class Forward, class Quantised, class Backward, class QuantisedBackward>
void check_quantised(Forward forward, Quantised quantised, Backward backward, QuantisedBackward quantised_backward) {
  constexpr int kRows = 13, kCols = 101, kPitch = 104;
  const auto in = random_rows<bf16>(2 * kRows, kCols, kPitch, 1, 2.0),
             dout = random_rows<bf16>(kRows, kCols, kPitch, 2);
  const std::vector<bf16> ones(2 * kPitch, from_float<bf16>(1.0f));
  std::vector<bf16> plain(kRows * kPitch), y = plain, again = plain, dx(in.size()), dx_plain = dx;
  std::vector<e4m3> codes(in.size());
  std::vector<float> scales(kRows);
  run(2, forward, in.data(), plain.data());
  run(2, quantised, in.data(), y.data(), codes.data(), scales.data());
  run(2, backward, dout.data(), in.data(), dx_plain.data(), static_cast<bf16*>(nullptr));
  run(2, quantised_backward, dout.data(), in.data(), ones.data(), dx.data(), codes.data(), scales.data(), again.data(),
      static_cast<e4m3*>(nullptr), static_cast<float*>(nullptr));
  EXPECT_TRUE(same_bits(y, plain));
  EXPECT_TRUE(same_bits(again, plain));
  EXPECT_TRUE(same_bits(dx, dx_plain));
}

TEST(Activations, Quantised) {
  check_quantised(swiglu_forward_gelu_odd_bf16, swiglu_forward_quantised_gelu, swiglu_backward_gelu_odd_bf16_false,
                  swiglu_backward_quantised_gelu);
  check_quantised(swiglu_forward_relu2_odd_bf16, swiglu_forward_quantised_relu2, swiglu_backward_relu2_odd_bf16_false,
                  swiglu_backward_quantised_relu2);
}

}  // namespace
}  // namespace llmc
