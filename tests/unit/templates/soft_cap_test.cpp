// Soft caps: of numbers, of rows, and of logits with their cross-entropy.
#include "device/soft_cap.h"

#include "device/cpu/soft_cap.h"
#include "kernels.h"

namespace llmc {

#define LLMC_CAPPED(act)                                                                                         \
  void cross_entropy_capped_##act##_false(act*, const int*, float*, float*, float*, float*, const StepScalars*); \
  void cross_entropy_capped_##act##_true(act*, const int*, float*, float*, float*, float*, const StepScalars*);
LLMC_CAPPED(float)
LLMC_CAPPED(bf16)
#undef LLMC_CAPPED
void soft_cap_rows_odd(const float*, float*);

namespace {

constexpr int kRows = 13, kCols = 101, kPitch = 104;
constexpr double kCap = 1.5, kZ = static_cast<double>(0.02f);

double capped(double v) { return kCap * std::tanh(v / kCap); }

TEST(SoftCap, IsTanhOverItsWholeRange) {
  for (double at = -30; at <= 30; at += 0.0137)
    for (const double size : {1.0, 1e-3, 1e-9}) {
      const float v = static_cast<float>(at * size);
      const double exact = capped(v), slope = 1 - std::tanh(v / kCap) * std::tanh(v / kCap);
      ASSERT_NEAR(soft_cap(v, 1.5f), exact, 8e-7 * std::abs(exact)) << v;  // tanh's 6e-7, and two products
      ASSERT_NEAR(soft_cap(static_cast<double>(v), kCap), exact, 1e-14) << v;
      ASSERT_NEAR(soft_cap_slope(soft_cap(v, 1.5f), 1.5f), slope, 1e-6) << v;
      const vector of_lanes = soft_cap(vector{} + v, 1.5f);
      ASSERT_NEAR(of_lanes[kVectorLanes - 1], exact, 8e-7 * std::abs(exact)) << v;
      ASSERT_NEAR(soft_cap_slope(of_lanes, 1.5f)[0], slope, 1e-6) << v;
    }
  EXPECT_EQ(soft_cap(0.0f, 1.5f), 0.0f);
  EXPECT_EQ(soft_cap_slope(-1e30f, 1.5f), 0.0f) << "a masked score";
  EXPECT_TRUE(std::isnan(soft_cap(NAN, 1.5f)));
}

TEST(SoftCap, OfRowsMayBeInPlace) {
  const auto x = random_rows<float>(kRows, kCols, kPitch, 1, 3.0);
  const auto [y] = on_any_threads([&] { return std::tuple(x); },
                                  [&](int threads, auto& out) {
                                    run(threads, soft_cap_rows_odd, static_cast<const float*>(std::get<0>(out).data()),
                                        std::get<0>(out).data());
                                  });
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kCols; ++c) {
      const double exact = capped(x[r * kPitch + c]);
      ASSERT_NEAR(y[r * kPitch + c], exact, 1e-6 * std::abs(exact));
    }
}

/// The losses and the gradient of the z-loss and of the cross-entropy, with respect to the logits before the cap.
template <class Act, bool kGradient, class Kernel>
void check(Kernel kernel) {
  const auto logits = random_rows<Act>(kRows, kCols, kPitch, 1, 2.0);
  std::vector<int> targets(kRows);
  for (int r = 0; r < kRows; ++r) targets[r] = r == 2 ? -1 : r * 29 % kCols;
  StepScalars scalars{};
  scalars.loss_scale = 1.0f / 37;
  const std::vector<float> before(kRows, 7.0f);
  const auto [after, losses, lse, entropies, correct] =
      on_any_threads([&] { return std::tuple(logits, before, before, before, before); },
                     [&](int threads, auto& out) {
                       auto& [rows, losses, lse, entropies, correct] = out;
                       run(threads, kernel, rows.data(), targets.data(), losses.data(), lse.data(), entropies.data(),
                           correct.data(), static_cast<const StepScalars*>(&scalars));
                     });
  if (!kGradient) {
    EXPECT_TRUE(same_bits(after, logits));
  }
  for (int r = 0; r < kRows; ++r) {
    const auto at = [&](int c) { return capped(value(logits[r * kPitch + c])); };
    double sum = 0, mean = 0, highest = -kCap;
    for (int c = 0; c < kCols; ++c) sum += std::exp(at(c)), highest = std::max(highest, at(c));
    for (int c = 0; c < kCols; ++c) mean += std::exp(at(c)) / sum * at(c);
    const double exact = std::log(sum);
    const bool ignored = targets[r] < 0;
    EXPECT_NEAR(losses[r], ignored ? 0 : exact - at(targets[r]), 1e-5);
    if (!ignored) {
      EXPECT_NEAR(lse[r], exact, 1e-5);
    }
    EXPECT_NEAR(entropies[r], ignored ? 0 : exact - mean, 1e-5);
    EXPECT_EQ(correct[r], !ignored && at(targets[r]) >= highest);
    for (int c = 0; kGradient && c < kCols; ++c) {
      const double t = at(c) / kCap, p = std::exp(at(c) - exact);
      const double slope = (p * (1 + 2 * kZ * exact) - (c == targets[r])) * (1 - t * t) / 37;
      ASSERT_NEAR(value(after[r * kPitch + c]), ignored ? 0 : slope, tolerance<Act>(slope, 1.0 / 37, 2e-6))
          << r << " " << c;
    }
  }
}

TEST(SoftCap, OfLogits) {
  check<float, false>(cross_entropy_capped_float_false);
  check<float, true>(cross_entropy_capped_float_true);
  check<bf16, false>(cross_entropy_capped_bf16_false);
  check<bf16, true>(cross_entropy_capped_bf16_true);
}

}  // namespace
}  // namespace llmc
