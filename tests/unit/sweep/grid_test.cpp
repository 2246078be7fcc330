// Words of a grid, its runs in order, and the ranking of their losses.
#include "compiler/tools/sweep/grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "../folder.h"
#include "compiler/tools/sweep/numbers.h"
#include "compiler/tools/sweep/ranking.h"
#include "compiler/tools/sweep/table.h"
#include "error.h"

namespace llmc::sweep {
namespace {

Grid grid(const std::vector<std::string>& words) { return parse_grid(words); }

TEST(Grid, CommasInsideOfAValueBelongToIt) {
  const Grid parsed = grid({"a=[1,2],[3,{b: 4, c: 5}]", "d=[6,7]", "e='8,9',\"10,11\"", "f="});
  EXPECT_EQ(parsed.fixed, (std::vector<std::string>{"d=[6,7]", "f="}));
  ASSERT_EQ(parsed.axes.size(), 2u);
  EXPECT_EQ(parsed.axes[0], (Axis{"a", {"[1,2]", "[3,{b: 4, c: 5}]"}}));
  EXPECT_EQ(parsed.axes[1], (Axis{"e", {"'8,9'", "\"10,11\""}}));
}

TEST(Grid, NamesMakeNoRunsThatDiffer) {
  EXPECT_THROW(grid({"name=a,b", "seed=1,2"}), Failure);
  EXPECT_EQ(grid({"name=a", "seed=1,2"}).fixed, (std::vector<std::string>{"name=a"}));
}

TEST(Grid, TheLastKeyChangesFastest) {
  const Grid parsed = grid({"a=1,2", "x=0", "b=3,4,5"});
  ASSERT_EQ(parsed.size(), 6u);
  EXPECT_EQ(parsed.label(0), "a=1 b=3");
  EXPECT_EQ(parsed.label(4), "a=2 b=4");
  EXPECT_EQ(parsed.words_of(5), (std::vector<std::string>{"x=0", "a=2", "b=5"}));
  for (std::size_t run = 0; run < parsed.size(); ++run) EXPECT_EQ(parsed.run_at(parsed.place_of(run)), run);
}

TEST(Grid, NumbersAreNeighboursByValue) {
  EXPECT_EQ(ascending({"a", {"3e-4", "1e-3", "1e-4"}}), (std::vector<std::size_t>{2, 0, 1}));
  EXPECT_EQ(ascending({"a", {"silu", "1e-3", "gelu"}}), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_FALSE(number_of("a", "1e-3x"));
  EXPECT_FALSE(number_of("a", "inf"));
}

TEST(Grid, NumbersAreInTheNotationOfTheirKey) {
  EXPECT_EQ(ascending({"batch.tokens", {"2Ki", "1K", "1_500"}}), (std::vector<std::size_t>{1, 2, 0}));
  EXPECT_EQ(ascending({"memory.budget", {"1GiB", "1G"}}), (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(ascending({"schedule.tokens", {"20x", "5x"}}), (std::vector<std::size_t>{1, 0}));
  EXPECT_FALSE(is_numeric({"schedule.tokens", {"20x", "5M"}}));
  EXPECT_FALSE(is_numeric({"batch.micro_batch", {"8", "auto"}}));
}

/// A grid with finished runs of these losses; NaN: one that did not finish.
Record record(const Grid& of, const std::vector<double>& losses) {
  Record made{.spec = {}, .digest = {}, .grid = of, .builds = {}, .runs = {}};
  for (const double loss : losses) {
    Run run{.folder = {}, .reason = {}, .loss = {}, .val_loss = {}};
    run.state = loss == loss ? State::finished : State::pruned;
    run.loss = loss;
    made.runs.push_back(run);
  }
  return made;
}

TEST(Ranking, SeedsAreAveragedAndNeighboursAreNextByValue) {
  const Record of = record(grid({"lr=3,1,2,4", "seed=7,8"}), {5, 5.5, 4, 4.25, 3, 3.5, 6, 6});
  const Ranking ranking = rank(of);
  EXPECT_FALSE(ranking.validation);
  ASSERT_EQ(ranking.settings.size(), 4u);
  EXPECT_EQ(ranking.settings[0].label, "lr=2");
  EXPECT_EQ(ranking.settings[0].runs, (std::vector<std::size_t>{4, 5}));
  EXPECT_DOUBLE_EQ(ranking.settings[0].loss, 3.25);
  EXPECT_DOUBLE_EQ(ranking.settings[0].spread, 0.5);
  ASSERT_EQ(ranking.neighbours.size(), 2u);
  EXPECT_EQ(ranking.neighbours[0].value, "1");
  EXPECT_DOUBLE_EQ(*ranking.neighbours[0].loss, 4.125);
  EXPECT_EQ(ranking.neighbours[1].value, "3");
  EXPECT_TRUE(ranking.edges.empty());
}

TEST(Ranking, TheEdgeIsOfThreeNumbersOrMore) {
  EXPECT_EQ(rank(record(grid({"lr=1,2,3"}), {3, 2, 1})).edges, std::vector<std::string>{"lr"});
  EXPECT_EQ(rank(record(grid({"lr=1,2,3"}), {1, 2, 3})).edges, std::vector<std::string>{"lr"});
  EXPECT_TRUE(rank(record(grid({"lr=1,2,3"}), {3, 1, 2})).edges.empty());
  EXPECT_TRUE(rank(record(grid({"lr=1,2"}), {1, 2})).edges.empty());
  EXPECT_TRUE(rank(record(grid({"act=a,b,c"}), {1, 2, 3})).edges.empty());
}

TEST(Ranking, RunsThatDidNotFinishAreNotRanked) {
  const Ranking ranking = rank(record(grid({"lr=1,2,3", "seed=1,2"}), {1, NAN, NAN, NAN, 3, 4}));
  ASSERT_EQ(ranking.settings.size(), 1u);
  EXPECT_EQ(ranking.settings[0].label, "lr=3");
  ASSERT_EQ(ranking.neighbours.size(), 1u);
  EXPECT_FALSE(ranking.neighbours[0].loss);
}

TEST(Ranking, ARunWithoutAValidationLossIsNotRankedAmongOthers) {
  Record of = record(grid({"lr=1,2"}), {1, 2});
  EXPECT_EQ(rank(of).settings[0].label, "lr=1");
  of.runs[0].folder = "runs/0001";
  of.runs[1].val_loss = 0.5;
  EXPECT_EQ(rank(of).settings[0].label, "lr=2");
  EXPECT_EQ(rank(of).settings.size(), 1u);
  EXPECT_NE(as_text(of).find("not ranked, without a validation loss of the last step: 0001\n"), std::string::npos);
  of.runs[0].val_loss = 0.75;
  EXPECT_TRUE(rank(of).validation);
  EXPECT_EQ(rank(of).settings[0].label, "lr=2");
}

/// One that is not finite is a loss too: the criterion stays the same when the record is read again.
TEST(Ranking, ARecordKeepsLossesThatAreNotFinite) {
  test::Folder folder;
  Record of = record(grid({"lr=1,2,3"}), {1, 2, 3});
  of.runs[0].val_loss = 2.0;
  of.runs[1].val_loss = of.runs[1].loss = NAN;
  write(folder.path, of);
  const Record read = sweep::read(folder.path).value();
  EXPECT_EQ(read.runs[0].val_loss, 2.0);
  EXPECT_TRUE(std::isnan(read.runs[1].val_loss.value()) && std::isnan(read.runs[1].loss.value()));
  EXPECT_FALSE(read.runs[2].val_loss);
  EXPECT_EQ(as_text(read), as_text(of));
}

TEST(Ranking, SeedsAloneAreOneSettingWithoutAName) {
  const std::string text = as_text(record(grid({"seed=7,8"}), {2, 4}));
  EXPECT_NE(text.find("best: loss 3.0000, the mean of 2 seeds (2.0000 apart)\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace llmc::sweep
