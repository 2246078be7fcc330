// history.jsonl: a line for each start, and what differs between two.
#include "run/history.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace llmc {
namespace {

const Environment kHere = {"0.1.0", "b1", "x86-64-v4", "AMD EPYC, 2 threads", {"oneDNN 2.6.3"}, 2, 1, ""};

TEST(History, OneLineAStart) {
  HistoryEntry entry{5,
                     "2026-01-31T12:00:00Z",
                     "runs/a/checkpoints/step-00000005",
                     kHere,
                     1432064,
                     "m1",
                     "d1",
                     "../../a.yaml",
                     {"optimizer.lr=1e-3"},
                     {"data.seed"},
                     {}};
  entry.changed.push_back({spec::find_key("optimizer.lr"), "0.0003", "0.001"});
  const std::string line = format_history(entry);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["step"], 5);
  EXPECT_EQ(json["time"], "2026-01-31T12:00:00Z");
  EXPECT_EQ(json["libraries"], (std::vector<std::string>{"oneDNN 2.6.3"}));
  EXPECT_EQ(json["threads"], 2);
  EXPECT_EQ(json["memory"], 1432064);
  EXPECT_EQ(json["changed"].dump(), R"({"optimizer.lr":["0.0003","0.001"]})");
  EXPECT_EQ(json["spec"], "../../a.yaml");
  EXPECT_EQ(json["overrides"][0], "optimizer.lr=1e-3");
  EXPECT_EQ(json["allowed"][0], "data.seed");
  EXPECT_TRUE(last_environment(line + "\n") == kHere);
  EXPECT_TRUE(last_environment("{\"old\": 1}\n" + line) == kHere);
  EXPECT_TRUE(last_environment("") == Environment{} && last_environment("nonsense\n") == Environment{});
}

TEST(History, TheSpecBeforeIsNotTheRunsOwn) {
  EXPECT_EQ(last_spec(""), "");
  EXPECT_EQ(last_spec("{\"step\": 0}\nnonsense\n"), "") << "of an llmc that did not write it";
  const std::string two = "{\"spec\": \"a.yaml\"}\n{\"spec\": \"../b.yaml\"}\n";
  EXPECT_EQ(last_spec(two), "../b.yaml");
  EXPECT_EQ(last_spec(two + "{\"spec\": \"spec.yaml\"}\n{\"spec\": \"\"}\n{\"spec\": 3}"), "../b.yaml");
}

TEST(History, Differences) {
  EXPECT_TRUE(differences(kHere, kHere).empty());
  EXPECT_TRUE(differences({}, kHere).empty()) << "the first start differs from nothing";
  Environment there = kHere;
  there.threads = 4;
  there.tuned = "abc";
  there.libraries = {"oneDNN 3.0.0"};
  EXPECT_EQ(differences(kHere, there), (std::vector<std::string>{R"(libraries ["oneDNN 2.6.3"] -> ["oneDNN 3.0.0"])",
                                                                 "threads 2 -> 4", "tuned none -> abc"}));
  EXPECT_TRUE(utc_now().size() == 20 && utc_now().back() == 'Z');
}

}  // namespace
}  // namespace llmc
