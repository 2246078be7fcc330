// Data that a report reads from a run folder: numbers, times over several starts, and thinning of long runs.
#include "compiler/tools/runs/record.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../checkpoint/small_state.h"
#include "../facts.h"
#include "compiler/tools/runs/page.h"

namespace llmc::runs {
namespace {

namespace fs = std::filesystem;

std::string metrics_line(int step, double seconds, const std::string& more = "") {
  return fmt::format(
      R"({{"step":{},"loss":3.5,"lr":0.1,"grad_norm":1.5,"tokens":{},"tokens_per_second":100.0,"seconds":{}{}}})"
      "\n",
      step, 96 * step, seconds, more);
}

std::vector<double> times(const Record& record) {
  std::vector<double> times;
  for (const MetricsLine& line : record.lines) times.push_back(line.time);
  return times;
}

TEST(Record, TimesOfSeveralStartsAddUp) {
  test::Folder base;
  // From the beginning to 4; killed, resumed at 2 and run to 3; killed, resumed at 2 with a longer start.
  write_all(base.path / "history.jsonl", "{\"step\":0}\n{\"step\":2}\n{\"step\":2}\n{\"step\":4}\n");
  write_all(base.path / "metrics.jsonl",
            metrics_line(1, 10) + metrics_line(2, 11) + metrics_line(3, 50) + metrics_line(4, 51) + metrics_line(5, 5));
  EXPECT_EQ(times(read_record(base.path)), (std::vector<double>{10, 11, 61, 62, 67}));
  // Time keeps accumulating when a start rolls back, even to a step before its own beginning.
  write_all(base.path / "history.jsonl", "{\"step\":0}\n{\"step\":4}\n{\"step\":2,\"rollback\":{}}\n");
  write_all(base.path / "metrics.jsonl", metrics_line(1, 10) + metrics_line(2, 11) + metrics_line(3, 50) +
                                             metrics_line(4, 51) + metrics_line(5, 52));
  EXPECT_EQ(times(read_record(base.path)), (std::vector<double>{10, 11, 61, 62, 63}));
  fs::remove(base.path / "history.jsonl");
  EXPECT_EQ(read_record(base.path).lines.size(), 5u) << "without a history";
}

TEST(Record, NumbersThatAreNotThereAreNone) {
  test::Folder base;
  write_all(base.path / "metrics.jsonl", "{\"step\":1,\"loss\":null,\"grad_norm\":\"x\",\"skipped\":[3,-1,\"a\",9]}\n" +
                                             metrics_line(2, 1, ",\"val_loss\":2.5") + metrics_line(2, 1) +
                                             "[]\n{\"loss\":1}\n" + "{\"step\":3,\"lo");
  base.write("samples.jsonl",
             "{\"step\":1,\"prompt\":\"a\",\"text\":\"b\"}\n{\"step\":2}\n{\"step\":3,\"prompt\":null,\"text\":3}\n");
  const Record record = read_record(base.path);
  EXPECT_EQ(record.samples.size(), 1u);
  EXPECT_TRUE(test::has_facts(record.summary.problem, {"'samples.jsonl'", "without a prompt"}));
  ASSERT_EQ(record.lines.size(), 2u);
  EXPECT_TRUE(std::isnan(record.lines[0].loss) && std::isnan(record.lines[0].grad_norm));
  EXPECT_TRUE(std::isnan(record.lines[0].seconds) && record.lines[0].time == 0);
  EXPECT_EQ(record.lines[0].skipped, (std::vector<nlohmann::ordered_json>{3, "a", 9}));
  EXPECT_TRUE(record.lines[1].evaluated);
  EXPECT_EQ(record.lines[1].sometimes, (std::vector<std::pair<std::string, double>>{{"val_loss", 2.5}}));
  EXPECT_TRUE(test::has_facts(record.summary.problem, {"2 lines", "'metrics.jsonl'", "not JSON objects"}));
  EXPECT_TRUE(test::has_facts(record.summary.problem, {"'metrics.jsonl'", "not ascend"}));
  EXPECT_TRUE(record.plan.is_null() && !record.values);
}

TEST(Record, EveryNumberOfALineIsThere) {
  test::Folder base;
  write_all(base.path / "metrics.jsonl",
            metrics_line(1, 1,
                         ",\"top1\":0.5,\"mfu\":0.25,\"memory\":8,\"val_loss/web\":2.5,\"val_top1/web\":null,"
                         "\"per_parameter\":{\"a\":{\"ratio\":0.1},\"b\":{\"ratio\":0.3},\"c\":{\"ratio\":0.25},"
                         "\"d\":{\"ratio\":null},\"e\":{\"ratio\":0.125}}"));
  const MetricsLine line = read_record(base.path).lines.at(0);
  EXPECT_EQ(line.measures[0], 0.5) << kMeasures[0];
  EXPECT_EQ(line.measures[7], 0.25) << kMeasures[7];
  EXPECT_TRUE(std::isnan(line.measures[1]));
  ASSERT_EQ(line.sometimes.size(), 5u);
  EXPECT_EQ(line.sometimes[0], (std::pair<std::string, double>("memory", 8)));
  EXPECT_EQ(line.sometimes[1], (std::pair<std::string, double>("val_loss/web", 2.5)));
  EXPECT_TRUE(line.sometimes[2].first == "val_top1/web" && std::isnan(line.sometimes[2].second));
  EXPECT_EQ(line.sometimes[3], (std::pair<std::string, double>("ratio_median", 0.1875)));
  EXPECT_EQ(line.sometimes[4], (std::pair<std::string, double>("ratio_largest", 0.3)));
}

TEST(Record, TheMedianSpeedIsOfKnownOnes) {
  test::Folder base;
  std::string lines;
  for (const char* speed : {"300", "null", "null", "100", "200"})
    lines += fmt::format("{{\"step\":{},\"tokens_per_second\":{}}}\n", lines.size() + 1, speed);
  base.write("metrics.jsonl", lines);
  EXPECT_EQ(summarise(base.path).tokens_per_second, 200);
}

TEST(Record, ADamagedLineHidesNoOther) {
  test::Folder base;
  base.write("metrics.jsonl",
             metrics_line(1, 1, ",\"val_loss\":2.5") + "{\"step\":2,\"los\n" + metrics_line(3, 3) + "torn\n");
  const Summary run = summarise(base.path);
  EXPECT_TRUE(run.state == RunState::damaged && run.step == 3 && run.loss == 3.5 && run.val_loss == 2.5);
  EXPECT_EQ(run.tokens_per_second, 100);
  EXPECT_TRUE(test::has_facts(run.problem, {"'metrics.jsonl'", "not a JSON object"}));
}

TEST(Page, RunsAreNamedByTheirPathsBelowACommonFolder) {
  const auto names = [](std::initializer_list<const char*> paths) {
    std::vector<Record> records;
    for (const char* path : paths) records.emplace_back().summary.path = path;
    const std::string text = page(records, 100, nlohmann::ordered_json::array()), key = "{\"name\":\"";
    std::string found;
    for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at)) {
      at += key.size();
      found += text.substr(at, text.find('"', at) - at) + " ";
    }
    return found;
  };
  EXPECT_EQ(names({"/runs/a", "/runs/b/c"}), "a b/c ");
  EXPECT_EQ(names({"/runs/a/b", "/runs/a"}), "a/b a ") << "a run in the folder of another";
}

TEST(Record, LongRunsAreThinned) {
  std::vector<MetricsLine> lines(1001);
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i].step = static_cast<std::int64_t>(i) + 1;
  EXPECT_EQ(thinned(lines, 1001).size(), 1001u);
  lines[501].evaluated = true;
  lines[502].skipped = {1};
  lines[503].loss_is_outlier = true;
  lines[504].grad_norm_is_outlier = true;
  const std::vector<MetricsLine> kept = thinned(lines, 100);
  EXPECT_EQ(kept.size(), 91u + 4 + 1);
  EXPECT_TRUE(kept.front().step == 1 && kept[1].step == 12 && kept.back().step == 1001);
  EXPECT_TRUE(thinned({}, 100).empty());
}

}  // namespace
}  // namespace llmc::runs
