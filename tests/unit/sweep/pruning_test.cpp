// The rule that ends runs, on losses at a share of their steps.
#include "compiler/tools/sweep/pruning.h"

#include <gtest/gtest.h>

#include <cmath>

#include "error.h"

namespace llmc::sweep {
namespace {

TEST(Pruning, SharesLieBeforeTheLastStep) {
  EXPECT_EQ(parse_rule("0.2@25%").shares(), (std::vector<int>{25, 50, 75}));
  EXPECT_EQ(parse_rule("0.2@40%").shares(), (std::vector<int>{40, 80}));
  EXPECT_EQ(parse_rule("1e-1@99%").shares(), (std::vector<int>{99}));
  EXPECT_DOUBLE_EQ(parse_rule("1e-1@99%").margin, 0.1);
}

TEST(Pruning, OtherWordsAreRefused) {
  for (const char* text : {"", "0.2", "@25%", "0.2@", "0.2@25", "0.2@%", "0.2@0%", "0.2@100%", "0.2@25%x", "-1@25%",
                           "0@25%", "nan@25%", "0.2@2.5%"})
    EXPECT_THROW(parse_rule(text), Failure) << text;
}

TEST(Pruning, RunsAreHeldAgainstTheBestThatHasComeAsFar) {
  const PruneRule rule{0.25, 25};
  const std::optional<double> unknown;
  EXPECT_FALSE(behind(rule, 3.25, {3.25, 3.0, unknown}));
  EXPECT_DOUBLE_EQ(*behind(rule, 3.5, {3.5, 3.0, unknown}), 0.5);
  EXPECT_FALSE(behind(rule, unknown, {unknown, 3.0}));
  EXPECT_FALSE(behind(rule, 9.0, {9.0}));
  // A loss that is not finite is behind every other, and none is behind it.
  EXPECT_TRUE(std::isinf(*behind(rule, NAN, {NAN, 3.0})));
  EXPECT_FALSE(behind(rule, NAN, {NAN, NAN}));
  EXPECT_FALSE(behind(rule, 3.0, {NAN, 3.0}));
  EXPECT_DOUBLE_EQ(*behind(rule, 4.0, {NAN, 3.0, NAN, 4.0}), 1.0);
}

TEST(Pruning, AShareIsAtLeastAStep) {
  EXPECT_EQ(step_at(25, 400), 100);
  EXPECT_EQ(step_at(1, 12), 1);
  EXPECT_EQ(window_of(400), 20);
  EXPECT_EQ(window_of(12), 1);
}

}  // namespace
}  // namespace llmc::sweep
