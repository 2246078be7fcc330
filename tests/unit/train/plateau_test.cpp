// A loss that no longer falls: what counts as a fall, the one warning, and its state over a resume.
#include "train/plateau.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "../facts.h"
#include "checkpoint/train_state.h"
#include "train/guards.h"

namespace llmc {
namespace {

TEST(Plateau, AFallIsThatOfALineAndTheSpreadIsAroundIt) {
  const double line[] = {8, 7, 6, 5}, flat[] = {3, 3, 3};
  EXPECT_DOUBLE_EQ(fall_of(line).fall, 3);
  EXPECT_NEAR(fall_of(line).spread, 0, 1e-12);
  EXPECT_EQ(fall_of(flat).fall, 0);
  const double bent[] = {2, 1, 1, 2};  // no slope: each is 0.5 from the mean
  EXPECT_DOUBLE_EQ(fall_of(bent).fall, 0);
  EXPECT_DOUBLE_EQ(fall_of(bent).spread, 1.4826 * 0.5);
}

TEST(Plateau, RatioIsThatOfTheWholeNorms) {
  const std::array<float, 6> norms = {9, 3, 0.3F, 9, 4, 0.4F};  // gradient, weight, update of two parameters
  EXPECT_NEAR(update_ratio(norms), 0.1, 1e-7);
}

/// Losses that fall to 3 by step 400 and stay there, with noise.
double loss_at(std::int64_t step) {
  std::mt19937 random(static_cast<unsigned>(step));
  return 3 + std::max(0.0, 1 - static_cast<double>(step) / 400) + std::normal_distribution<double>(0, 0.02)(random);
}

/// Steps of the warnings of a run that is stopped and resumed before each of these steps.
std::vector<std::int64_t> warned(std::int64_t window, const std::vector<std::int64_t>& stops, std::string* said = {}) {
  std::vector<std::int64_t> steps;
  Plateau plateau(window, {});
  for (std::int64_t step = 1; step <= 1000; ++step) {
    for (const std::int64_t stop : stops)
      if (step == stop) {
        TrainState state{stop - 1, plain_position(60, {0, {{4, 15}}}), 1, 2, "m", "d", "", {}};
        state.guard.plateau = plateau.state();
        const std::string text = format_train_state(state);
        EXPECT_NE(text.find("llmc-state-7"), std::string::npos);
        EXPECT_TRUE(parse_train_state(text) == state);
        plateau = Plateau(window, parse_train_state(text).guard.plateau);
      }
    const std::string text = plateau.observe(step, loss_at(step), 3e-4, {});
    if (text.empty()) continue;
    steps.push_back(step);
    if (said) *said = text;
  }
  return steps;
}

TEST(Plateau, IsToldOnceAndAtTheSameStepAfterAResume) {
  std::string text;
  const std::vector<std::int64_t> straight = warned(160, {}, &text);
  ASSERT_EQ(straight.size(), 1u);
  EXPECT_GT(straight[0], 440) << "while the loss falls there is no warning";
  EXPECT_LE(straight[0], 800);
  EXPECT_TRUE(test::has_facts(text, {"step " + std::to_string(straight[0]), "160 steps", "(guards.plateau)", "20 steps",
                                     "3.00e-04", "metrics.per_parameter"}))
      << text;
  EXPECT_EQ(warned(160, {7, 331, straight[0], straight[0] + 1, 900}), straight);
  EXPECT_EQ(warned(0, {}), std::vector<std::int64_t>{});
}

TEST(Plateau, NamesTheRatioWhereNormsAreKnown) {
  const std::array<float, 3> norms = {1, 2, 0.01F};
  Plateau plateau(8, {});
  std::string said;
  for (std::int64_t step = 1; step <= 8; ++step) {
    EXPECT_EQ(said, "");
    said += plateau.observe(step, 2.5, 1e-3, norms);
  }
  EXPECT_TRUE(test::has_facts(said, {"step 8", "8 steps", "2.5", "1.00e-03", "5.00e-03"})) << said;
}

TEST(Plateau, AnotherWindowBeginsAnew) {
  Plateau plateau(16, {});
  for (std::int64_t step = 1; step <= 15; ++step) EXPECT_EQ(plateau.observe(step, 2, 1e-3, {}), "");
  EXPECT_EQ(Plateau(32, plateau.state()).state().means.size(), 0u);
  EXPECT_NE(Plateau(16, plateau.state()).observe(16, 2, 1e-3, {}), "");
  EXPECT_EQ(Plateau(0, plateau.state()).state(), PlateauState{})
      << "an unwatched run's checkpoints are those of before";
}

/// The same state of a run, read from its checkpoint.
PlateauState saved(const PlateauState& plateau) {
  TrainState state{7, plain_position(60, {0, {{4, 15}}}), 1, 2, "m", "d", "", {}};
  state.guard.plateau = plateau;
  EXPECT_TRUE(parse_train_state(format_train_state(state)) == state);
  return parse_train_state(format_train_state(state)).guard.plateau;
}

TEST(Plateau, ARunThatWasToldIsNotToldAgain) {
  Plateau plateau(8, {});
  std::string said;
  for (std::int64_t step = 1; step <= 8; ++step) said += plateau.observe(step, 2, 1e-3, {});
  EXPECT_NE(said, "");
  for (const std::int64_t steps : {8, 16, 0, 8}) {
    plateau = Plateau(steps, saved(plateau.state()));
    for (std::int64_t step = 9; step <= 40; ++step) EXPECT_EQ(plateau.observe(step, 2, 1e-3, {}), "") << steps;
  }
  const PlateauState before{.block = 0, .means = {}, .told = true};
  EXPECT_EQ(saved(before), before) << "a rollback to before guards.plateau was set";
}

TEST(Plateau, OtherLossesBeginAnew) {
  GuardState state{.losses = {3, 2}, .grad_norms = {1, 1}, .newest = 7, .skipped = {5}};
  state.plateau = {4, {3.5, 3.25}, 6.5, 2, true};
  GuardState expected{.losses = {}, .grad_norms = {}, .newest = 7, .skipped = {5}};
  expected.plateau.block = 4;
  expected.plateau.told = true;
  EXPECT_EQ(with_other_losses(state), expected);
  const StepLimits limits = Guard(spec::Guards{.judge_after = 1}, 1, expected).limits(8);
  EXPECT_TRUE(std::isinf(limits.loss) && std::isinf(limits.grad_norm));
}

TEST(Plateau, AStateThatWasAlteredIsRefused) {
  TrainState state{7, plain_position(60, {0, {{4, 15}}}), 1, 2, "m", "d", "", {}};
  state.guard.plateau = {4, {3.5, 3.25}, 6.5, 2, false};
  const std::string text = format_train_state(state);
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string wrong = text;
    ASSERT_NE(wrong.find(from), std::string::npos) << from;
    wrong.replace(wrong.find(from), from.size(), to);
    EXPECT_THROW(parse_train_state(wrong), std::invalid_argument) << from;
  };
  refused("llmc-state-7", "llmc-state-3");
  refused("\"block\": 4", "\"block\": 0");
  refused("\"count\": 2", "\"count\": -2");
  refused("\"told\"", "\"tells\"");
}

}  // namespace
}  // namespace llmc
