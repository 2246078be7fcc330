// Cross-entropy with and without its gradient, and the sum of losses.
#include <algorithm>
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

/// Targets: the first column, the last, an ignored one, the row's largest, and others.
template <class C>
std::vector<int> targets(const std::vector<typename C::Act>& logits) {
  std::vector<int> t(C::kRows);
  for (int r = 0; r < C::kRows; ++r) t[r] = r * 29 % C::kCols;
  t[0] = 0, t[1] = C::kCols - 1, t[2] = -1, t[C::kRows - 1] = -1;
  for (const int r : {3, 5})
    for (int c = 0; c < C::kCols; ++c)
      if (to_float(logits[r * C::kPitch + c]) > to_float(logits[r * C::kPitch + t[r]])) t[r] = c;
  return t;
}

/// `z`: factor of the z-loss.
template <class C, bool kGradient, class Kernel>
void check(Kernel kernel, float shift, double z = 0) {
  using Act = typename C::Act;
  auto logits = random_rows<Act>(C::kRows, C::kCols, C::kPitch, 1, 5.0);
  for (int r = 0; r < C::kRows; ++r)
    for (int c = 0; c < C::kCols; ++c)
      logits[r * C::kPitch + c] = from_float<Act>(to_float(logits[r * C::kPitch + c]) + shift);
  const auto target = targets<C>(logits);
  // A row in which the target shares the largest logit with another column.
  logits[5 * C::kPitch + (target[5] + 50) % C::kCols] = logits[5 * C::kPitch + target[5]];
  const StepScalars s = scalars();
  const std::vector<float> before(C::kRows, 7.0f);
  const auto [after, losses, lse, entropies, correct] =
      on_any_threads([&] { return std::tuple(logits, before, before, before, before); },
                     [&](int threads, auto& out) {
                       auto& [rows, losses, lse, entropies, correct] = out;
                       run(threads, kernel, rows.data(), target.data(), losses.data(), lse.data(), entropies.data(),
                           correct.data(), &s);
                     });
  if (!kGradient) {
    EXPECT_TRUE(same_bits(after, logits));
  }
  for (int r = 0; r < C::kRows; ++r) {
    const auto at = [&](int c) { return value(logits[r * C::kPitch + c]); };
    double highest = at(0), sum = 0, weighted = 0;
    for (int c = 0; c < C::kCols; ++c) highest = std::max(highest, at(c));
    for (int c = 0; c < C::kCols; ++c) sum += std::exp(at(c) - highest);
    for (int c = 0; c < C::kCols; ++c) weighted += std::exp(at(c) - highest) * at(c);
    const double exact_lse = highest + std::log(sum);
    const double loss = target[r] < 0 ? 0 : exact_lse - at(target[r]);
    ASSERT_NEAR(losses[r], loss, 1e-6 * (1 + loss)) << r;
    ASSERT_EQ(correct[r], target[r] >= 0 && at(target[r]) == highest) << r;
    if (target[r] < 0) {
      ASSERT_EQ(lse[r], -std::numeric_limits<float>::infinity());
      ASSERT_EQ(entropies[r], 0);
    } else {
      ASSERT_NEAR(lse[r], exact_lse, 1e-7 * std::abs(exact_lse) + 1e-6) << r;
      ASSERT_NEAR(entropies[r], exact_lse - weighted / sum, 5e-6) << r;
    }
    for (int c = 0; kGradient && c < C::kPitch; ++c) {
      const double probability = c < C::kCols ? std::exp(at(c) - highest) / sum : 0;
      const double slope = 1 + 2 * z * exact_lse;
      const double exact = target[r] < 0 || c >= C::kCols ? 0 : (probability * slope - (c == target[r])) * kScale;
      // The difference to the highest logit, up to 32, is rounded by up to 1e-6, which becomes a relative error of the
      // exponential.
      ASSERT_NEAR(value(after[r * C::kPitch + c]), exact,
                  tolerance<Act>(exact, kScale * (probability * std::abs(slope) + (c == target[r])), 3e-6))
          << r << " " << c;
    }
  }
}

TYPED_TEST(CrossEntropy, MatchesTheFormula) {
  for (const float shift : {0.0f, 1000.0f, -1000.0f}) {  // only differences of logits have an effect
    check<TypeParam, false>(LLMC_OF_FLAG(cross_entropy, false), shift);
    check<TypeParam, true>(LLMC_OF_FLAG(cross_entropy, true), shift);
    check<TypeParam, true>(LLMC_OF(cross_entropy_z), shift, 0.02f);
  }
}

TYPED_TEST(CrossEntropy, HidesNoNaN) {
  using C = TypeParam;
  using Act = typename C::Act;
  auto logits = random_rows<Act>(C::kRows, C::kCols, C::kPitch, 1);
  logits[C::kPitch + 3] = from_float<Act>(std::numeric_limits<float>::quiet_NaN());
  logits[5] = from_float<Act>(std::numeric_limits<float>::infinity());
  const auto target = targets<C>(random_rows<Act>(C::kRows, C::kCols, C::kPitch, 1));
  const StepScalars s = scalars();
  std::vector<float> losses(C::kRows), lse = losses, entropies = losses, correct = losses;
  run(2, LLMC_OF_FLAG(cross_entropy, true), logits.data(), target.data(), losses.data(), lse.data(), entropies.data(),
      correct.data(), &s);
  EXPECT_FALSE(std::isfinite(losses[0]));
  EXPECT_TRUE(std::isnan(losses[1]));
  EXPECT_TRUE(std::isfinite(losses[3]));
}

TEST(CrossEntropyCapped, OfAVastVocabularyNeedsNoStack) {
  constexpr int kRows = 3, kCols = 3000001, kPitch = 3000008;
  std::vector<bf16> logits(std::size_t{kRows} * kPitch);  // all equal
  const std::vector<int> target = {0, 2999999, -1};
  const StepScalars s = scalars();
  std::vector<float> losses(kRows), lse = losses, entropies = losses, correct = losses;
  run(2, cross_entropy_capped_vast, logits.data(), target.data(), losses.data(), lse.data(), entropies.data(),
      correct.data(), &s);
  EXPECT_NEAR(losses[0], std::log(3000001.0), 1e-5);
  EXPECT_NEAR(losses[1], std::log(3000001.0), 1e-5);
  EXPECT_NEAR(value(logits[kPitch + kCols - 1]), kScale / kCols, kScale / kCols / 256);
  EXPECT_NEAR(value(logits[kPitch + 2999999]), -kScale, kScale / 256);
}

/// A gradient that fp16 rounds to 0 without a scale, and one of normal numbers.
TEST(CrossEntropyScaled, MultipliesGradientsAndNoLosses) {
  constexpr int kRows = 13, kCols = 101, kPitch = 104;
  const auto logits = random_rows<fp16>(kRows, kCols, kPitch, 1);
  std::vector<int> target(kRows, 5);
  StepScalars s{};
  s.loss_scale = 0x1p-24f;
  const auto gradients = [&](auto kernel, float scale) {
    auto rows = logits;
    std::vector<float> losses(kRows), lse(kRows), entropies(kRows), correct(kRows);
    const LossScale dynamic{.factor = scale};
    run(2, kernel, rows.data(), target.data(), losses.data(), lse.data(), entropies.data(), correct.data(), &s,
        &dynamic);
    return std::pair(rows, losses);
  };
  for (const auto kernel : {cross_entropy_scaled, cross_entropy_capped_scaled}) {
    const auto [small, losses] = gradients(kernel, 1);
    const auto [large, same] = gradients(kernel, 0x1p24f);
    EXPECT_TRUE(same_bits(losses, same));
    double most = 0;
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kCols; ++c) {
        const double g = value(large[r * kPitch + c]);
        most = std::max(most, std::abs(g));
        ASSERT_NEAR(value(small[r * kPitch + c]), g * 0x1p-24, 0x1p-25) << r << " " << c;
      }
    EXPECT_GT(most, 0.5);
    EXPECT_LT(most, 2);
  }
}

template <class C>
void check_audit(void (*kernel)(const float*, const int*, float*)) {
  for (const float shift : {0.0f, 3e7f, -3e7f}) {  // from 2^24 on fp32 has only integers, and so have differences
    auto logits = random_rows<float>(C::kRows, C::kCols, C::kPitch, 1, 25.0);
    for (float& v : logits) v += shift;
    const auto target = targets<C>(logits);
    const auto [losses] = on_any_threads(
        [] { return std::tuple(std::vector<float>(C::kRows, 7.0f)); },
        [&](int threads, auto& out) { run(threads, kernel, logits.data(), target.data(), std::get<0>(out).data()); });
    for (int r = 0; r < C::kRows; ++r) {
      double highest = value(logits[r * C::kPitch]), sum = 0;
      for (int c = 0; c < C::kCols; ++c) highest = std::max(highest, value(logits[r * C::kPitch + c]));
      for (int c = 0; c < C::kCols; ++c) sum += std::exp(value(logits[r * C::kPitch + c]) - highest);
      const double loss = target[r] < 0 ? 0 : std::log(sum) + (highest - value(logits[r * C::kPitch + target[r]]));
      ASSERT_NEAR(losses[r], loss, 6e-8 * std::abs(loss) + 1e-9) << r;  // one rounding to fp32
    }
  }
}

struct OddAudit {
  using Act = float;
  static constexpr int kRows = 13, kCols = 101, kPitch = 104;
};
struct WideAudit {
  using Act = float;
  static constexpr int kRows = 40, kCols = 256, kPitch = 272;
};

TEST(AuditLoss, IsTheFormulaInDouble) {
  check_audit<OddAudit>(audit_loss_odd);
  check_audit<WideAudit>(audit_loss_wide);
}

TEST(AuditLoss, HidesNoNaN) {
  using C = OddAudit;
  auto logits = random_rows<float>(C::kRows, C::kCols, C::kPitch, 1);
  const auto target = targets<C>(logits);
  logits[C::kPitch + 3] = std::numeric_limits<float>::quiet_NaN();
  logits[5] = std::numeric_limits<float>::infinity();
  std::vector<float> losses(C::kRows);
  run(2, audit_loss_odd, logits.data(), target.data(), losses.data());
  EXPECT_FALSE(std::isfinite(losses[0]));
  EXPECT_TRUE(std::isnan(losses[1]));
  EXPECT_TRUE(std::isfinite(losses[3]));
}

TEST(LossSum, ScalesAndAddsInDouble) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  auto losses = random_values<float>(301, 1), lse = random_values<float>(301, 2),
       entropies = random_values<float>(301, 3), correct = random_values<float>(301, 4);
  losses[7] = 1e7f;                    // fp32 sums would lose the others' last digits
  for (float& v : lse) v -= 10;        // so that 0 would be the largest
  lse[0] = lse[9] = lse[300] = kNone;  // rows without a target
  const auto sum = [](const std::vector<float>& values) {
    double total = 0;
    for (const float v : values) total += v == kNone ? 0 : v;
    return total * static_cast<double>(kScale);
  };
  const double highest = *std::max_element(lse.begin(), lse.end());
  const StepScalars s = scalars();
  for (const int accumulate : {0, 1})
    for (const double highest_before : {-1.0, -50.0}) {
      const auto [results] = on_any_threads(
          [&] {
            return std::tuple(std::vector<StepResults>{
                {.loss = 3, .top1 = 5, .lse = 7, .entropy = 11, .lse_max = highest_before, .skipped = 5}});
          },
          [&](int threads, auto& out) {
            run(threads, loss_sum_odd, losses.data(), lse.data(), entropies.data(), correct.data(), &s,
                std::get<0>(out).data(), accumulate);
          });
      const StepResults& r = results[0];
      EXPECT_NEAR(r.loss, sum(losses) + (accumulate ? 3 : 0), 1e-13 * 1e7);
      EXPECT_NEAR(r.top1, sum(correct) + (accumulate ? 5 : 0), 1e-12);
      EXPECT_NEAR(r.lse, sum(lse) + (accumulate ? 7 : 0), 1e-12);
      EXPECT_NEAR(r.entropy, sum(entropies) + (accumulate ? 11 : 0), 1e-12);
      EXPECT_EQ(r.lse_max, accumulate ? std::max(highest, highest_before) : highest);
      EXPECT_EQ(r.skipped, 5);
    }
}

TEST(ZLoss, IsTheMeanOfSquares) {
  std::vector<float> lse = random_values<float>(301, 5);
  double squares = 0;
  lse[0] = lse[9] = lse[300] = -std::numeric_limits<float>::infinity();  // rows without a target
  for (const float v : lse) squares += std::isfinite(v) ? static_cast<double>(v) * v : 0;
  const StepScalars s = scalars();
  const double mean = static_cast<double>(0.02f) * squares * static_cast<double>(kScale);
  for (const int accumulate : {0, 1}) {
    const auto [report] = on_any_threads(
        [] { return std::tuple(std::vector<double>{3}); },
        [&](int threads, auto& out) { run(threads, z_loss_odd, lse.data(), &s, std::get<0>(out).data(), accumulate); });
    EXPECT_NEAR(report[0], mean + (accumulate ? 3 : 0), 1e-12);  // sums of 301 doubles
  }
}

TEST(LossSum, KnowsNothingOfRowsWithoutTargets) {
  const std::vector<float> zeros(301), none(301, -std::numeric_limits<float>::infinity());
  const StepScalars s = scalars();
  StepResults results{.lse_max = 3};
  run(1, loss_sum_odd, zeros.data(), none.data(), zeros.data(), zeros.data(), &s, &results, 1);
  EXPECT_EQ(results.lse, 0);
  EXPECT_EQ(results.lse_max, 3);
}

}  // namespace
}  // namespace llmc
