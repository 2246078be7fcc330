// Kernels that quantise their results: the same bits as the plain kernel and quantise after it.
#include "device/fp8.h"
#include "kernels.h"

namespace llmc {
namespace {

constexpr int kRows = 13, kCols = 101, kPitch = 104, kBlocks = 3;

/// Rows in e4m3.
template <class Result>
struct Codes {
  std::vector<Result> y;
  std::vector<float> scales;
  Codes(int rows, int pitch)
      : y(static_cast<std::size_t>(rows) * pitch, garbage<Result>()), scales(static_cast<std::size_t>(rows), 7.0f) {}
  bool operator==(const Codes& other) const { return same_bits(y, other.y) && same_bits(scales, other.scales); }
};

/// As quantise makes them of x.
template <class Result, class Kernel>
Codes<Result> quantise_after(Kernel kernel, const std::vector<bf16>& x, const bf16* factors, int rows, int pitch) {
  Codes<Result> codes(rows, pitch);
  run(1, kernel, x.data(), factors, codes.y.data(), codes.scales.data());
  return codes;
}

std::vector<bf16> fresh(std::size_t size) { return std::vector<bf16>(size, garbage<bf16>()); }

template <class Result, bool kNumbers, class Kernel, class Quantise>
void check_norm(Kernel kernel, Quantise quantise) {
  const auto x = random_rows<bf16>(kRows, kCols, kPitch, 1, 3.0);
  const auto weight = random_values<float>(kCols, 2);
  auto y = fresh(x.size());
  std::vector<float> rstd(kRows);
  run(1, rms_norm_forward_odd_bf16, x.data(), weight.data(), y.data(), rstd.data());
  const auto expected = quantise_after<Result>(quantise, y, nullptr, kRows, kPitch);
  for (const int threads : {1, 2, 3, 7}) {
    auto found = fresh(x.size());
    std::vector<float> found_rstd(kRows);
    Codes<Result> codes(kRows, kPitch);
    run(threads, kernel, x.data(), weight.data(), kNumbers ? found.data() : nullptr, found_rstd.data(), codes.y.data(),
        codes.scales.data());
    EXPECT_TRUE(codes == expected && same_bits(found_rstd, rstd)) << threads;
    EXPECT_TRUE(same_bits(found, kNumbers ? y : fresh(x.size()))) << threads;
  }
}

TEST(Quantised, RmsNorm) {
  check_norm<bf16, false>(rms_norm_forward_quantised_bf16, quantise_odd_bf16_false);
  check_norm<e4m3, true>(rms_norm_forward_quantised_e4m3, quantise_odd_e4m3_false);
}

/// kAgain: with codes of the forward pass's result, which is not written.
template <class Result, bool kResidual, bool kCodes, bool kAgain, class Kernel, class Quantise>
void check_norm_backward(Kernel kernel, Quantise folded, Quantise quantise) {
  const auto dy = random_rows<bf16>(kRows, kCols, kPitch, 3), x = random_rows<bf16>(kRows, kCols, kPitch, 1, 3.0),
             residual = random_rows<bf16>(kRows, kCols, kPitch, 4);
  const auto weight = random_values<float>(kCols, 2), rstd = random_values<float>(kRows, 5);
  const auto factors = powers(kCols);
  auto dx = fresh(x.size()), y = fresh(x.size());
  std::vector<float> partial(kBlocks * kCols);
  run(1, rms_norm_backward_odd_bf16_true, dy.data(), x.data(), weight.data(), rstd.data(), residual.data(), dx.data(),
      partial.data(), y.data());
  if (!kResidual)
    run(1, rms_norm_backward_odd_bf16_false, dy.data(), x.data(), weight.data(), rstd.data(), nullptr, dx.data(),
        partial.data(), nullptr);
  const auto expected = quantise_after<Result>(folded, dx, factors.data(), kRows, kPitch),
             expected_y = quantise_after<Result>(quantise, y, nullptr, kRows, kPitch);
  for (const int threads : {1, 2, 3, 7}) {
    auto found = kResidual ? residual : dy, found_y = fresh(x.size());
    std::vector<float> found_partial(kBlocks * kCols, 7.0f);
    Codes<Result> codes(kRows, kPitch), again(kRows, kPitch);
    run(threads, kernel, kResidual ? dy.data() : found.data(), x.data(), weight.data(), rstd.data(),
        kResidual ? found.data() : nullptr, kCodes ? factors.data() : nullptr, found.data(), found_partial.data(),
        kCodes ? codes.y.data() : nullptr, kCodes ? codes.scales.data() : nullptr, kAgain ? nullptr : found_y.data(),
        kAgain ? again.y.data() : nullptr, kAgain ? again.scales.data() : nullptr);
    EXPECT_TRUE(same_bits(found, dx) && same_bits(found_partial, partial)) << threads;
    if (kCodes) {
      EXPECT_TRUE(codes == expected) << threads;
    }
    if (kAgain) {
      EXPECT_TRUE(again == expected_y) << threads;
    } else {
      EXPECT_TRUE(same_bits(found_y, y)) << threads;
    }
  }
}

TEST(Quantised, RmsNormBackward) {
  check_norm_backward<bf16, false, true, false>(rms_norm_backward_quantised_bf16, quantise_odd_bf16_true,
                                                quantise_odd_bf16_false);
  check_norm_backward<e4m3, true, true, true>(rms_norm_backward_quantised_e4m3, quantise_odd_e4m3_true,
                                              quantise_odd_e4m3_false);
  check_norm_backward<e4m3, true, false, true>(rms_norm_backward_quantised_again, quantise_odd_e4m3_true,
                                               quantise_odd_e4m3_false);
}

template <class Result, bool kNumbers, class Kernel, class Quantise>
void check_swiglu(Kernel kernel, Quantise quantise) {
  const auto gate_up = random_rows<bf16>(2 * kRows, kCols, kPitch, 1, 3.0);
  auto out = fresh(gate_up.size() / 2);
  run(1, swiglu_forward_odd_bf16, gate_up.data(), out.data());
  const auto expected = quantise_after<Result>(quantise, out, nullptr, kRows, kPitch);
  for (const int threads : {1, 2, 3, 7}) {
    auto found = fresh(out.size());
    Codes<Result> codes(kRows, kPitch);
    run(threads, kernel, gate_up.data(), kNumbers ? found.data() : nullptr, codes.y.data(), codes.scales.data());
    EXPECT_TRUE(codes == expected) << threads;
    EXPECT_TRUE(same_bits(found, kNumbers ? out : fresh(out.size()))) << threads;
  }
}

TEST(Quantised, Swiglu) {
  check_swiglu<bf16, false>(swiglu_forward_quantised_bf16, quantise_odd_bf16_false);
  check_swiglu<e4m3, true>(swiglu_forward_quantised_e4m3, quantise_odd_e4m3_false);
}

/// kAgain: with the forward pass's result, in codes alone if kAgainCodes.
template <class Result, bool kNumbers, bool kAgain, bool kAgainCodes, class Kernel, class Quantise>
void check_swiglu_backward(Kernel kernel, Quantise pair, Quantise quantise) {
  const auto gate_up = random_rows<bf16>(2 * kRows, kCols, kPitch, 1, 3.0),
             dout = random_rows<bf16>(kRows, kCols, kPitch, 2);
  const auto factors = powers(2 * kPitch);
  auto dgate_up = fresh(gate_up.size()), out = fresh(dout.size());
  run(1, swiglu_backward_odd_bf16_true, dout.data(), gate_up.data(), dgate_up.data(), out.data());
  const auto expected = quantise_after<Result>(pair, dgate_up, factors.data(), kRows, 2 * kPitch),
             expected_out = quantise_after<Result>(quantise, out, nullptr, kRows, kPitch);
  for (const int threads : {1, 2, 3, 7}) {
    auto found = gate_up, found_out = fresh(out.size());  // in place
    Codes<Result> codes(kRows, 2 * kPitch), again(kRows, kPitch);
    run(threads, kernel, dout.data(), kNumbers ? found.data() : gate_up.data(), factors.data(),
        kNumbers ? found.data() : nullptr, codes.y.data(), codes.scales.data(),
        kAgain && !kAgainCodes ? found_out.data() : nullptr, kAgainCodes ? again.y.data() : nullptr,
        kAgainCodes ? again.scales.data() : nullptr);
    EXPECT_TRUE(codes == expected) << threads;
    if (kNumbers) {
      EXPECT_TRUE(same_bits(found, dgate_up)) << threads;
    }
    if (kAgainCodes) {
      EXPECT_TRUE(again == expected_out) << threads;
    } else if (kAgain) {
      EXPECT_TRUE(same_bits(found_out, out)) << threads;
    }
  }
}

TEST(Quantised, SwigluBackward) {
  check_swiglu_backward<bf16, false, true, false>(swiglu_backward_quantised_bf16, quantise_pair_bf16,
                                                  quantise_odd_bf16_false);
  check_swiglu_backward<e4m3, true, true, true>(swiglu_backward_quantised_e4m3, quantise_pair_e4m3,
                                                quantise_odd_e4m3_false);
  check_swiglu_backward<e4m3, false, false, false>(swiglu_backward_quantised_alone, quantise_pair_e4m3,
                                                   quantise_odd_e4m3_false);
}

template <class Result, bool kNumbers, class Kernel, class Quantise>
void check_rope_backward(Kernel kernel, Quantise quantise) {
  constexpr int kTokens = 12, kSequence = 6, kHeadDim = 20, kAll = 80, kRowPitch = 80;
  const auto table = random_values<float>(kSequence * kHeadDim, 6);
  auto dqkv = random_rows<bf16>(kTokens, kAll, kRowPitch, 5);
  // The largest element of every second row is of v.
  for (int r = 1; r < kTokens; r += 2)
    for (int c = 3 * kHeadDim; c < kAll; ++c) {
      bf16& v = dqkv[r * kRowPitch + c];
      v = from_float<bf16>(64.0f * to_float(v));
    }
  const auto factors = powers(kAll);
  const auto before = dqkv;
  run(1, rope_packed, dqkv.data(), table.data());
  const auto expected = quantise_after<Result>(quantise, dqkv, factors.data(), kTokens, kRowPitch);
  for (const int threads : {1, 2, 3, 7}) {
    auto found = before;
    Codes<Result> codes(kTokens, kRowPitch);
    run(threads, kernel, found.data(), table.data(), factors.data(), codes.y.data(), codes.scales.data());
    EXPECT_TRUE(codes == expected) << threads;
    EXPECT_TRUE(same_bits(found, kNumbers ? dqkv : before)) << threads;
  }
}

TEST(Quantised, RopeBackward) {
  check_rope_backward<bf16, false>(rope_backward_quantised_bf16, quantise_heads_bf16);
  check_rope_backward<e4m3, true>(rope_backward_quantised_e4m3, quantise_heads_e4m3);
}

}  // namespace
}  // namespace llmc
