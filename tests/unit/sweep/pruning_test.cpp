// The rule that ends runs, on losses at a share of their steps, and how these are read.
#include "compiler/tools/sweep/pruning.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../folder.h"
#include "compiler/tools/sweep/losses.h"
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

TEST(Pruning, ReadsAReplacedFileFromItsBeginning) {
  test::Folder base;
  const auto lines = [](int first, int last, double loss) {
    std::string text;
    for (int step = first; step <= last; ++step) text += fmt::format("{{\"step\":{},\"loss\":{}}}\n", step, loss);
    return text;
  };
  const std::filesystem::path path = base.write("metrics.jsonl", lines(1, 4, 8.0));
  Losses losses(path);
  losses.update();
  EXPECT_EQ(losses.mean(4, 2), 8.0);
  // A rollback to step 2 replaces the file, which is longer again when it is read.
  std::filesystem::rename(base.write("new", lines(1, 2, 8.0) + lines(3, 5, 4.0)), path);
  losses.update();
  EXPECT_EQ(losses.step(), 5);
  EXPECT_EQ(losses.mean(4, 2), 4.0);
}

TEST(Pruning, AShareIsAtLeastAStep) {
  EXPECT_EQ(step_at(25, 400), 100);
  EXPECT_EQ(step_at(1, 12), 1);
  EXPECT_EQ(window_of(400), 20);
  EXPECT_EQ(window_of(12), 1);
}

}  // namespace
}  // namespace llmc::sweep
