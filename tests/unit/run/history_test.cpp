// history.jsonl: one line per start, and differences between two.
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
                     "",
                     kHere,
                     1432064,
                     2.5e11,
                     "m1",
                     {"d1", 7, plain_position(160, {1, {{16, 3}, {8, 4}}}), 6},
                     "../../a.yaml",
                     {"optimizer.lr=1e-3"},
                     {"data.seed"},
                     {}};
  entry.changed.push_back({spec::find_key("optimizer.lr"), "optimizer.lr", "0.0003", "0.001"});
  const std::string line = format_history(entry);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["step"], 5);
  EXPECT_EQ(json["time"], "2026-01-31T12:00:00Z");
  EXPECT_EQ(json["data"], "d1");
  EXPECT_EQ(json["libraries"], (std::vector<std::string>{"oneDNN 2.6.3"}));
  EXPECT_EQ(json["threads"], 2);
  EXPECT_EQ(json["memory"], 1432064);
  EXPECT_EQ(json["product_flops"], 2.5e11);
  EXPECT_EQ(json["changed"].dump(), R"({"optimizer.lr":["0.0003","0.001"]})");
  EXPECT_EQ(json["spec"], "../../a.yaml");
  EXPECT_EQ(json["overrides"][0], "optimizer.lr=1e-3");
  EXPECT_EQ(json["allowed"][0], "data.seed");
  EXPECT_TRUE(last_environment(line + "\n") == kHere);
  EXPECT_TRUE(last_environment("{\"old\": 1}\n" + line) == kHere);
  EXPECT_TRUE(last_environment(line + "\nnonsense\n") == kHere);
  EXPECT_EQ(last_checkpoint(line + "\n[1]\nnonsense\n"), "runs/a/checkpoints/step-00000005");
  EXPECT_TRUE(last_environment("") == Environment{} && last_environment("nonsense\n") == Environment{});
}

TEST(History, ShardsOfData) {
  const auto line = [](const char* data, std::vector<ShardRecord> shards) {
    HistoryEntry entry;
    entry.order.data = data;
    entry.shards = std::move(shards);
    return format_history(entry) + "\n";
  };
  const std::vector<ShardRecord> one = {{"a.bin", 10, "1"}, {"b.bin", 20, "2"}}, two = {{"c.bin", 30, "3"}};
  EXPECT_EQ(line("d1", {}).find("shards"), std::string::npos);
  const std::string text = line("d1", one) + "nonsense\n" + line("d2", two) + line("d1", {});
  EXPECT_EQ(shards_of(text, "d1"), one);
  EXPECT_EQ(shards_of(text, "d2"), two);
  EXPECT_FALSE(shards_of(text, "d3"));
  EXPECT_FALSE(shards_of("", "d1"));
}

TEST(History, OrderOfAStep) {
  const auto line = [](std::int64_t step, std::uint64_t seed) {
    HistoryEntry entry;
    entry.step = step;
    entry.checkpoint = "c" + std::to_string(step);
    entry.plateau_told = seed == 3;
    entry.order = {"d1", seed, plain_position(160, {1, {{16, 3}, {8, 4}}}), 6};
    return format_history(entry) + "\n";
  };
  const std::string text = line(0, 1) + line(5, 2) + line(9, 3) + "nonsense\n" + line(5, 4) + line(7, 5) + "[1]\n";
  // The start from step 5 went back, so the later steps of the start from step 9 are abandoned.
  for (const auto& [step, seed, from] :
       {std::tuple{0, 1u, 0}, {4, 1u, 0}, {5, 4u, 5}, {6, 4u, 5}, {7, 5u, 7}, {20, 5u, 7}}) {
    const auto found = order_after(text, step);
    ASSERT_TRUE(found) << step;
    EXPECT_EQ(found->order.seed, seed) << step;
    EXPECT_EQ(found->step, from);
    EXPECT_FALSE(found->plateau_told);
    EXPECT_EQ(found->checkpoint, "c" + std::to_string(from));
    EXPECT_TRUE((found->order == DataOrder{"d1", seed, plain_position(160, {1, {{16, 3}, {8, 4}}}), 6}));
  }
  EXPECT_TRUE(order_after(line(0, 3), 3)->plateau_told);
  EXPECT_FALSE(order_after("", 3));
  EXPECT_FALSE(order_after(line(4, 1), 3));
  EXPECT_FALSE(order_after(line(0, 1) + "{\"step\":2,\"checkpoint\":\"\",\"data\":\"d1\"}\n", 3)) << "an older llmc's";
  EXPECT_TRUE(order_after(line(0, 1) + "{\"step\":2,\"checkpoint\":\"\",\"data\":\"d1\"}\n", 1));
  std::string never = line(0, 1);
  never.replace(never.find("\"samples_per_step\":6"), 20, "\"samples_per_step\":0");
  EXPECT_FALSE(order_after(never, 3));
  EXPECT_FALSE(order_after("nonsense\n", 3));
}

TEST(History, APhaseThatBeganInOtherDataHasTheLengthOfItsProcess) {
  HistoryEntry start, border;
  start.order = {"d1", 1, plain_position(0, {0, {{16, 0}}}), 6};
  border.step = 5;
  border.order = {"d2", 1, plain_position(480, {1, {}}), 6};
  const auto found = [&] { return order_after(format_history(start) + "\n" + format_history(border) + "\n", 7); };
  EXPECT_FALSE(found()) << "no length";
  border.same_start = true;
  ASSERT_TRUE(found());
  EXPECT_EQ(found()->order.position, plain_position(480, {1, {{16, 0}}}));
  start.order.position = {};
  EXPECT_FALSE(found()) << "none before either";
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
