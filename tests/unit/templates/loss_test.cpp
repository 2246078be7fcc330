// Cross-entropy with and without its gradient, and the sum of losses.
#include <limits>

#include "kernels.h"

namespace llmc {
namespace {

template <class C>
struct CrossEntropy : testing::Test {};
TYPED_TEST_SUITE(CrossEntropy, Cases);

constexpr float kScale = 1.0f / 37;

StepScalars scalars() {
  StepScalars s{};
  s.loss_scale = kScale;
  return s;
}

/// Targets: the first column, the last, an ignored one, and others.
template <class C>
std::vector<int> targets() {
  std::vector<int> t(C::kRows);
  for (int r = 0; r < C::kRows; ++r) t[r] = r * 29 % C::kCols;
  t[0] = 0, t[1] = C::kCols - 1, t[2] = -1, t[C::kRows - 1] = -1;
  return t;
}

template <class C, bool kGradient, class Kernel>
void check(Kernel kernel, float shift) {
  using Act = typename C::Act;
  auto logits = random_rows<Act>(C::kRows, C::kCols, C::kPitch, 1, 5.0);
  for (int r = 0; r < C::kRows; ++r)
    for (int c = 0; c < C::kCols; ++c)
      logits[r * C::kPitch + c] = from_float<Act>(to_float(logits[r * C::kPitch + c]) + shift);
  const auto target = targets<C>();
  const StepScalars s = scalars();
  const auto [after, losses] =
      on_any_threads([&] { return std::tuple(logits, std::vector<float>(C::kRows, 7.0f)); },
                     [&](int threads, auto& out) {
                       run(threads, kernel, std::get<0>(out).data(), target.data(), std::get<1>(out).data(), &s);
                     });
  if (!kGradient) {
    EXPECT_TRUE(same_bits(after, logits));
  }
  for (int r = 0; r < C::kRows; ++r) {
    const auto at = [&](int c) { return value(logits[r * C::kPitch + c]); };
    double highest = at(0), sum = 0;
    for (int c = 0; c < C::kCols; ++c) highest = std::max(highest, at(c));
    for (int c = 0; c < C::kCols; ++c) sum += std::exp(at(c) - highest);
    const double loss = target[r] < 0 ? 0 : highest + std::log(sum) - at(target[r]);
    ASSERT_NEAR(losses[r], loss, 1e-6 * (1 + loss)) << r;
    for (int c = 0; kGradient && c < C::kPitch; ++c) {
      const double probability = c < C::kCols ? std::exp(at(c) - highest) / sum : 0;
      const double exact = target[r] < 0 || c >= C::kCols ? 0 : (probability - (c == target[r])) * kScale;
      // The difference to the highest logit, up to 32, is rounded by up to 1e-6, which the exponential turns into a
      // factor.
      ASSERT_NEAR(value(after[r * C::kPitch + c]), exact,
                  tolerance<Act>(exact, kScale * (probability + (c == target[r])), 3e-6))
          << r << " " << c;
    }
  }
}

TYPED_TEST(CrossEntropy, MatchesTheFormula) {
  for (const float shift : {0.0f, 1000.0f, -1000.0f}) {  // only differences of logits matter
    check<TypeParam, false>(LLMC_OF_FLAG(cross_entropy, false), shift);
    check<TypeParam, true>(LLMC_OF_FLAG(cross_entropy, true), shift);
  }
}

TYPED_TEST(CrossEntropy, HidesNoNaN) {
  using C = TypeParam;
  using Act = typename C::Act;
  auto logits = random_rows<Act>(C::kRows, C::kCols, C::kPitch, 1);
  logits[C::kPitch + 3] = from_float<Act>(std::numeric_limits<float>::quiet_NaN());
  logits[5] = from_float<Act>(std::numeric_limits<float>::infinity());
  const auto target = targets<C>();
  const StepScalars s = scalars();
  std::vector<float> losses(C::kRows);
  run(2, LLMC_OF_FLAG(cross_entropy, true), logits.data(), target.data(), losses.data(), &s);
  EXPECT_FALSE(std::isfinite(losses[0]));
  EXPECT_TRUE(std::isnan(losses[1]));
  EXPECT_TRUE(std::isfinite(losses[3]));
}

TEST(LossSum, ScalesAndAddsInDouble) {
  auto losses = random_values<float>(301, 1);
  losses[7] = 1e7f;  // fp32 sums would lose the others' last digits
  double exact = 0;
  for (const float loss : losses) exact += loss;
  const StepScalars s = scalars();
  for (const int accumulate : {0, 1}) {
    const auto [results] = on_any_threads(
        [&] {
          StepResults before{};
          before.loss = 3;
          before.skipped = 5;
          return std::tuple(std::vector<StepResults>{before});
        },
        [&](int threads, auto& out) {
          run(threads, loss_sum_odd, losses.data(), &s, std::get<0>(out).data(), accumulate);
        });
    EXPECT_NEAR(results[0].loss, exact * static_cast<double>(kScale) + (accumulate ? 3 : 0), 1e-13 * 1e7);
    EXPECT_EQ(results[0].skipped, 5);
  }
}

}  // namespace
}  // namespace llmc
