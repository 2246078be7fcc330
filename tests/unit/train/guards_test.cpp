// Guards: limits from the window, conditions that end a run, and runs with real spikes.
#include "train/guards.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "checkpoint/manifest.h"
#include "checkpoint/train_state.h"
#include "runs.h"

namespace llmc {
namespace {

constexpr float kNone = std::numeric_limits<float>::infinity();

spec::Guards values() {
  spec::Guards v;
  v.loss = 10;
  v.grad_norm = 20;
  v.window = 5;
  v.judge_after = 3;
  v.limit_in_a_row = 3;
  v.limit = 4;
  v.limit_steps = 8;
  v.frozen_steps = 4;
  v.frozen_change = 1e-6;
  return v;
}

StepResults results(double loss, float norm, int skipped = kApplied) {
  return {.loss = loss, .grad_norm = norm, .clip_scale = 1, .skipped = skipped};
}

TEST(Spread, IsTheMedianAndTheScaledMedianOfDistances) {
  const double odd[] = {5, 1, 4, 1000, 2}, even[] = {1, 2, 4, 8}, one[] = {3};
  EXPECT_EQ(spread_of(odd).median, 4);  // distances 1, 3, 0, 996, 2
  EXPECT_DOUBLE_EQ(spread_of(odd).spread, 1.4826 * 2);
  EXPECT_EQ(spread_of(even).median, 3);  // distances 2, 1, 1, 5
  EXPECT_DOUBLE_EQ(spread_of(even).spread, 1.4826 * 1.5);
  EXPECT_EQ(spread_of(one).median, 3);
  EXPECT_EQ(spread_of(one).spread, 0);
}

TEST(Guard, JudgesByTheWindowTwoStepsBack) {
  Guard guard(values(), 0.5, {});
  const double losses[] = {9, 4, 5, 3, 4.5, 3.5, 4, 2};
  const float norms[] = {8, 4, 5, 3, 4.5f, 3.5f, 4, 2};
  const StepLimits none{kNone, kNone};
  for (std::int64_t step = 1; step <= 8; ++step) {
    // Limits are the same with the results of the previous step, as if the host waits, and without, as if it runs
    // ahead.
    const StepLimits ahead = guard.limits(step + 1);
    const auto i = static_cast<std::size_t>(step - 1);
    EXPECT_EQ(guard.observe(step, results(losses[i], norms[i]), none, {}), "");
    const StepLimits waited = guard.limits(step + 1);
    EXPECT_EQ(ahead.loss, waited.loss) << step;
    EXPECT_EQ(ahead.grad_norm, waited.grad_norm) << step;
    EXPECT_EQ(waited.loss == kNone, step < 4) << "fewer than judge_after";
  }
  // The last five up to step 7: 5, 3, 4.5, 3.5, 4.
  const double loss_spread = 1.4826 * std::log(5 / 4.5), loss_limit = 5 * std::exp(10 * loss_spread) - 1;
  EXPECT_FLOAT_EQ(guard.limits(9).loss, static_cast<float>(loss_limit));
  const double norm_spread = 1.4826 * std::log(4 / 3.5);
  EXPECT_GT(norm_spread, 0.1);
  EXPECT_LT(norm_spread, 0.2);
  EXPECT_FLOAT_EQ(guard.limits(9).grad_norm, static_cast<float>(4 * std::exp(20 * norm_spread)));
  EXPECT_EQ(guard.state().losses.size(), 6u);
  EXPECT_EQ(guard.state().newest, 8);
  // A guard restored from its state, also with a shorter window, has the same limits as one that always had it.
  EXPECT_EQ(Guard(values(), 0.5, guard.state()).limits(9).loss, guard.limits(9).loss);
  spec::Guards shorter = values();
  shorter.window = 3;
  EXPECT_FLOAT_EQ(Guard(shorter, 0.5, guard.state()).limits(9).loss,
                  static_cast<float>(5 * std::exp(10 * 1.4826 * std::log(5.5 / 5)) - 1));
  spec::Guards off = values();
  off.loss = off.grad_norm = 0;
  EXPECT_EQ(Guard(off, 0.5, guard.state()).limits(9).loss, kNone);
  EXPECT_EQ(Guard(off, 0.5, guard.state()).limits(9).grad_norm, kNone);
  EXPECT_EQ(Guard(values(), 500, guard.state()).limits(9).grad_norm, 500) << "never below the clip norm";
  // The warning has the median that decided: 4 of these five, not 3.75 of all six that are kept.
  const std::string said = guard.observe(9, results(100, 4, kLossAbove), guard.limits(9), {});
  EXPECT_TRUE(
      test::has_facts(said, {"loss 100 is above", "median of the last steps is 4 (guards.loss)", "stops at 3 or 4"}))
      << said;
}

TEST(Guard, ALimitThatIsNeverReachedIsNotNamed) {
  spec::Guards never = values();
  never.limit = never.limit_steps + 1;
  Guard guard(never, 0.5, {});
  const std::string said = guard.observe(1, results(std::nan(""), 4, kNotFinite), {kNone, kNone}, {});
  EXPECT_TRUE(test::has_facts(said, {"the run stops at 3)"})) << said;
}

TEST(Guard, HasASmallestSpreadAndALargestOne) {
  GuardState state{{4, 4, 4, 4, 4}, {2, 2, 2, 2, 2}, 5, {}, 0};
  EXPECT_FLOAT_EQ(Guard(values(), 0, state).limits(7).loss, static_cast<float>(5 * std::exp(10 * 0.02) - 1));
  EXPECT_FLOAT_EQ(Guard(values(), 0, state).limits(7).grad_norm, static_cast<float>(2 * std::exp(20 * 0.1)));
  state.losses = {0, 0, 0, 0, 0};
  state.grad_norms = {0, 0, 0, 0, 0};
  EXPECT_FLOAT_EQ(Guard(values(), 0, state).limits(7).loss, static_cast<float>(std::exp(10 * 0.02) - 1));
  EXPECT_EQ(Guard(values(), 0, state).limits(7).grad_norm, kNone) << "zeros say nothing";
  state.grad_norms = {32, 16, 8, 4, 2};  // as at the start of a run
  EXPECT_FLOAT_EQ(Guard(values(), 0, state).limits(7).grad_norm, static_cast<float>(8 * std::exp(20 * 0.2)));
  spec::Guards wide = values();
  wide.loss = wide.grad_norm = 1e6;
  EXPECT_EQ(Guard(wide, 0, state).limits(7).loss, kNone) << "more than a float holds";
  EXPECT_EQ(Guard(wide, 0, state).limits(7).grad_norm, kNone);
}

/// Norms of a step of 64 tokens: log-normal with a long tail, as measured by tests/bench/guards.py.
TEST(Guard, TheTailOfSmallBatchesIsNoSpike) {
  spec::Guards v = values();
  v.window = 200;
  v.judge_after = 100;
  Guard guard(v, 0.5, {});
  for (std::int64_t step = 1; step <= 400; ++step) {
    // One in fifty is 8 times the median, one in two hundred 14 times.
    const double scatter = 0.15 * std::sin(static_cast<double>(step) * 12.9898) * 1.4;
    const double norm = step % 200 == 0 ? 14 : step % 50 == 0 ? 8 : std::exp(scatter);
    const StepLimits limits = guard.limits(step);
    EXPECT_GT(limits.grad_norm, norm) << step;
    EXPECT_EQ(guard.observe(step, results(3, static_cast<float>(norm)), limits, {}), "");
  }
  EXPECT_LT(guard.limits(401).grad_norm, 60) << "spikes are found";
}

TEST(Guard, WhatIsSkippedDoesNotEnterTheWindow) {
  Guard guard(values(), 0.5, {});
  const StepLimits limits{5, 9};
  for (std::int64_t step = 1; step <= 5; ++step) guard.observe(step, results(4, 2), limits, {});
  const GuardState before = guard.state();
  std::vector<SampleId> ids;
  for (std::uint64_t id = 7; id <= 16; ++id) ids.push_back({id, id % 2 ? 1u : 0u});
  const SampleNames numbers({"", ""}), names({"web", "code"});
  const std::string samples = name_samples(ids, numbers);
  EXPECT_EQ(name_samples(std::span(ids).first(2), names), "samples code:7, web:8");
  const std::string loss = guard.observe(6, results(5.5, 2, kLossAbove), limits, samples);
  EXPECT_TRUE(test::has_facts(loss, {"step 6", "loss 5.5", "5", "4", "(guards.loss)"}));
  EXPECT_TRUE(test::has_facts(loss, {"(1", "1", "8 steps", "3", "4)"}));
  EXPECT_TRUE(test::has_facts(loss, {"samples 7, 8, 9, 10, 11, 12, 13, 14 and 2 more", "metrics.jsonl"}));
  const std::string norm =
      guard.observe(7, results(4, 9.5, kGradNormAbove), limits, name_samples(std::span(ids).first(1), numbers));
  EXPECT_TRUE(
      test::has_facts(norm, {"gradient norm 9.5", "9", "2", "(guards.grad_norm)", "sample 7", "metrics.jsonl"}));
  EXPECT_TRUE(guard.state().losses == before.losses && guard.state().newest == 5);
  const std::string nan =
      guard.observe(8, results(-std::nan(""), 2, kNotFinite), limits, samples, "the loss on rank 1");
  EXPECT_TRUE(test::has_facts(nan, {"step 8", "loss nan", "gradient norm 2", "the loss on rank 1. "}));
  EXPECT_STREQ(skip_reason(kNotFinite), "not_finite");
  EXPECT_STREQ(skip_reason(kLossAbove), "loss");
  EXPECT_STREQ(skip_reason(kGradNormAbove), "grad_norm");
}

TEST(Guard, EndsAfterTooManyInARowOrInAll) {
  Guard guard(values(), 0.5, {});
  const auto take = [&](Guard& to, std::int64_t step, bool skipped, const char* where = "") {
    to.observe(step, results(4, 2, skipped ? kNotFinite : kApplied), {5, 9}, {}, where);
  };
  for (std::int64_t step = 1; step <= 6; ++step) take(guard, step, step % 3 != 0);
  EXPECT_EQ(guard.exhausted(), "") << "four of the last eight, and the last was applied";
  take(guard, 7, true);
  EXPECT_TRUE(test::has_facts(guard.exhausted(), {"5 of the last 8", "skipped", "step 1"}));
  EXPECT_EQ(guard.first_skipped(), 1);
  Guard later(values(), 0.5, {});
  for (std::int64_t step = 1; step <= 9; ++step) take(later, step, step <= 2 || step == 9);
  EXPECT_EQ(later.exhausted(), "") << "the first is more than eight steps ago";

  Guard row(values(), 0.5, {});
  take(row, 1, false);
  take(row, 2, true, "the loss on rank 1 (host b)");
  take(row, 3, true, "the loss on ranks 0-1");
  // After a stop and resume the count continues.
  Guard resumed(values(), 0.5, row.state());
  EXPECT_EQ(resumed.in_a_row(), 2);
  for (Guard* each : {&row, &resumed}) {
    EXPECT_EQ(each->exhausted(), "");
    take(*each, 4, true, "the loss on ranks 0-1");
    EXPECT_EQ(each->first_skipped(), 2);
  }
  EXPECT_TRUE(test::has_facts(row.exhausted(), {"3", "in a row", "the loss on rank 1 (host b)", "step 1"}));
}

TEST(Guard, AnOverflowIsTheLossScalesAlone) {
  Guard guard(values(), 0.5, {});
  for (std::int64_t step = 1; step <= 5; ++step) guard.observe(step, results(4, 2), {5, 9}, {});
  const GuardState before = guard.state();
  for (std::int64_t step = 6; step <= 12; ++step) {
    EXPECT_EQ(guard.observe(step, results(4, kNone, kOverflow), {5, 9}, {}), "");
    EXPECT_EQ(guard.in_a_row(), 0);
    EXPECT_EQ(guard.exhausted(), "");
  }
  EXPECT_TRUE(guard.state() == before);
  EXPECT_STREQ(skip_reason(kOverflow), "overflow");
}

TEST(FrozenLoss, IsToldOnceWithItsLikelyCauses) {
  FrozenLoss frozen(4, 1e-6), never(0, 1e-6), moves(4, 1e-6);
  std::string told;
  for (std::int64_t step = 1; step <= 12; ++step) {
    const std::string said = frozen.observe(step, 3 + 1e-7 * static_cast<double>(step % 2));
    EXPECT_EQ(said.empty(), step != 4) << step;
    told += said;
    EXPECT_EQ(never.observe(step, 3), "");
    EXPECT_EQ(moves.observe(step, step % 4 ? 3 : 3.00001), "") << step;
  }
  EXPECT_TRUE(test::has_facts(told, {"step 4", "3", "4 steps", "(guards.frozen_steps)"}));
  FrozenLoss nan(2, 1e-6);
  for (std::int64_t step = 1; step <= 4; ++step) EXPECT_EQ(nan.observe(step, std::nan("")), "") << "said elsewhere";
}

TEST(GuardState, IsPartOfAStateAndOlderOnesHaveNone) {
  TrainState state{7, plain_position(60, {0, {{4, 15}}}), 1, 2, "m", "d", "", {}};
  const std::string older = format_train_state(state);
  EXPECT_TRUE(fake::contains(older, "llmc-state-2") && !fake::contains(older, "guard")) << older;
  EXPECT_TRUE(parse_train_state(older) == state);
  state.guard = {{4.1, 1.0 / 3}, {2, 0.1f}, 6, {5, 7}, 1};
  const std::string text = format_train_state(state);
  EXPECT_TRUE(fake::contains(text, "llmc-state-3"));
  EXPECT_TRUE(parse_train_state(text) == state);
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string wrong = text;
    wrong.replace(wrong.find(from), from.size(), to);
    EXPECT_THROW(parse_train_state(wrong), std::invalid_argument) << from;
  };
  refused("llmc-state-3", "llmc-state-2");
  refused("4.1", "4.10");
  refused("4.1,", "");
  refused("\"rollbacks\"", "\"rollback\"");
  state.best = Best{5, "web", 1.0 / 3};
  EXPECT_TRUE(fake::contains(format_train_state(state), "llmc-state-4"));
  EXPECT_TRUE(parse_train_state(format_train_state(state)) == state);
  EXPECT_EQ(state.updates(), 7) << "an older state counts every step";
  state.skipped_updates = 2;
  EXPECT_TRUE(fake::contains(format_train_state(state), "llmc-state-5"));
  EXPECT_TRUE(parse_train_state(format_train_state(state)) == state);
  EXPECT_EQ(parse_train_state(format_train_state(state)).updates(), 5);
  state.loss_scale = LossScale{.factor = 32768, .last = 65536, .good = 1999, .overflows = 3};
  EXPECT_TRUE(fake::contains(format_train_state(state), "llmc-state-8"));
  EXPECT_TRUE(parse_train_state(format_train_state(state)) == state);
  for (const LossScale& scale : {LossScale{.factor = 0.5f}, LossScale{.good = 2000}}) {
    state.loss_scale = scale;
    EXPECT_THROW(parse_train_state(format_train_state(state)), std::invalid_argument);
  }
  state.skipped_updates = 8;
  EXPECT_THROW(parse_train_state(format_train_state(state)), std::invalid_argument) << "more than steps";
}

}  // namespace

namespace fake {
namespace {

/// Twenty steps of the fake trainer suffice to fill the window.
const Words kWatched = {"guards.window=8", "guards.judge_after=5", "guards.loss=8", "guards.grad_norm=8"};

class Guards : public Runs {
 protected:
  static Words with(Words words, const Words& more = {}) {
    words.insert(words.end(), kWatched.begin(), kWatched.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<int> skipped(const std::string& run, const std::string& reason) const {
    std::vector<int> steps;
    for (const Json& line : lines(run + "/metrics.jsonl"))
      if (line.contains("skipped") && line["skip_reason"] == reason) steps.push_back(line["step"]);
    return steps;
  }
};

TEST_F(Guards, ASpikeIsSkippedAndNamed) {
  const Result result =
      train(with({"--run", "run"}, {"checkpoint.every=1", "guards.log_text=true"}), {"FAKE_SPIKE=12", "FAKE_STEEP=15"});
  EXPECT_EQ(skipped("run", "loss"), std::vector<int>{12});
  EXPECT_EQ(skipped("run", "grad_norm"), std::vector<int>{15});
  EXPECT_TRUE(contains(result.err, "step 12: loss ")) << result.err;
  EXPECT_TRUE(contains(result.err, "step 15: gradient norm ")) << result.err;
  for (const int step : {12, 15}) {
    EXPECT_EQ(checkpoint("run", step - 1)["model.safetensors"], checkpoint("run", step)["model.safetensors"]);
    EXPECT_EQ(checkpoint("run", step - 1)["optimizer.safetensors"], checkpoint("run", step)["optimizer.safetensors"]);
    for (const Json& sample : lines("run/metrics.jsonl")[static_cast<std::size_t>(step - 1)]["skipped"])
      EXPECT_TRUE(contains(result.err, "step " + std::to_string(step) + ", sample " + sample.dump() + ": "))
          << result.err;
  }
  EXPECT_NE(checkpoint("run", 12)["model.safetensors"], checkpoint("run", 13)["model.safetensors"]);
  // Without guards the steps are applied without warnings.
  const Result off = train({"--run", "off", "guards.loss=0", "guards.grad_norm=0"}, {"FAKE_SPIKE=12", "FAKE_STEEP=15"});
  EXPECT_EQ(off.err, "");
}

TEST_F(Guards, ChangeNothingWhereNothingTrips) {
  train({"--run", "on"});
  train(with({"--run", "watched"}));
  train({"--run", "off", "guards.loss=0", "guards.grad_norm=0"});
  for (const char* run : {"watched", "off"})
    EXPECT_EQ(checkpoint(run, 20)["model.safetensors"], checkpoint("on", 20)["model.safetensors"]);
  EXPECT_TRUE(skipped("watched", "loss").empty() && skipped("watched", "grad_norm").empty());
}

/// Limits so tight that normal steps exceed them: each start must have the window that the run had there.
TEST_F(Guards, AResumeHasTheSameWindow) {
  const Words narrow = {"guards.window=4", "guards.judge_after=2", "guards.loss=0.5", "guards.grad_norm=0.5"};
  const auto words = [&](Words first) {
    first.insert(first.end(), narrow.begin(), narrow.end());
    return first;
  };
  train(words({"--run", "clean"}));
  const auto metrics = lines("clean/metrics.jsonl");
  EXPECT_GE(skipped("clean", "loss").size() + skipped("clean", "grad_norm").size(), 3u);
  for (int stop = 1; stop < 20; ++stop) {
    const std::string run = "run" + std::to_string(stop);
    train(words({"--run", run, "--steps", std::to_string(stop)}));
    train({"--run", run});
    expect_same_checkpoint("clean", run, 20);
    const auto ours = lines(run + "/metrics.jsonl");
    for (std::size_t i = 0; i < 20; ++i)
      EXPECT_EQ(ours[i].value("skipped", Json()), metrics[i].value("skipped", Json()));
  }
}

TEST_F(Guards, TooManyOfTheLastStepsEndTheRun) {
  const Result ended =
      run(with({"--run", "run"}, {"guards.limit=3", "guards.limit_steps=6"}), {"FAKE_SPIKE=7,10,13,15"});
  EXPECT_EQ(ended.status, 7);
  EXPECT_TRUE(test::has_facts(ended.err, {"3 of the last 6", "step 10", "guards.rollback=true"}));
  EXPECT_EQ(lines("run/metrics.jsonl").size(), 15u);
}

TEST_F(Guards, RollbackEndsAsTheRunWouldHaveWithoutTheSamples) {
  const Words back = with({"--run", "run"}, {"guards.rollback=true", "guards.limit_in_a_row=3", "checkpoint.every=5",
                                             "checkpoint.mirror=" + (folder_ / "mirror").string()});
  const pid_t child = start(back, {"FAKE_SPIKE=14,15,16", "FAKE_GATES=18"});  // step 15 is saved between the spikes
  wait_for_gate(child, 18);                                                   // in step 12, for the second time
  EXPECT_TRUE(fs::exists(folder_ / "mirror/checkpoints/step-00000010"));
  EXPECT_FALSE(fs::exists(folder_ / "mirror/checkpoints/step-00000015")) << "the run has left it";
  open_gate(18);
  const Result result = finish(child);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(
      test::has_facts(result.err, {"3 updates", "step 13: ", "rolls back", "step 10", "step 16", "(rollback 1 of 3)"}));
  const auto metrics = lines("run/metrics.jsonl");
  ASSERT_EQ(metrics.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(metrics[i]["step"], i + 1);
    EXPECT_FALSE(metrics[i].contains("skipped"));
  }
  const auto history = lines("run/history.jsonl");
  ASSERT_EQ(history.size(), 2u);
  EXPECT_EQ(history[1]["step"], 10);
  EXPECT_EQ(history[1]["rollbacks"], 1);
  EXPECT_EQ(history[1]["rollback"]["from_step"], 16);
  EXPECT_EQ(history[1]["build"], history[0]["build"]) << "the next start is compared with it";

  // A run that is at step 10 when the rollback resumes.
  train(with({"--run", "without", "--steps", "10"}, {"checkpoint.every=5"}));
  const fs::path at = folder_ / "without/checkpoints/step-00000010";
  TrainState state = parse_train_state(read_file(at / "state.json"));
  state.position = plain_position(state.position.tokens, {2, {{4, 14}}});  // 64 of 25 samples per epoch are consumed
  state.guard.rollbacks = 1;
  auto files = read_manifest(at);
  fs::remove(at / "state.json");
  for (FileRecord& file : files)
    if (file.name == "state.json") file = write_small_file(at, "state.json", format_train_state(state));
  fs::remove(at / "manifest.json");
  write_manifest(at, files);
  train({"--run", "without"});
  expect_same_checkpoint("without", "run", 20);
  // --batches shows the samples before and after the rollback.
  append_torn_line("run/history.jsonl");
  const Result batches = train({"--run", "run", "--batches", "11", "--json"});
  const Result moved = train({"--run", "without", "--batches", "11", "--json"});
  EXPECT_EQ(batches.out, moved.out);
}

TEST_F(Guards, ARollbackThatIsKilledIsFollowed) {
  const Words words = with({"--run", "clean"}, {"guards.rollback=true", "guards.limit_in_a_row=3"});
  train(words, {"FAKE_SPIKE=14,15,16"});
  Words again = words;
  again[1] = "run";
  const pid_t child = start(again, {"FAKE_SPIKE=14,15,16", "FAKE_GATES=18"});  // second step after it
  wait_for_gate(child, 18);
  ::kill(child, SIGKILL);
  EXPECT_EQ(finish(child).status, 128 + SIGKILL);
  append_torn_line("run/history.jsonl");
  train({"--run", "run"});
  expect_same_checkpoint("clean", "run", 20);
  EXPECT_EQ(lines("run/metrics.jsonl").size(), 20u);
}

/// Checkpoints of skipped steps replace older ones, but not the one a rollback may need.
TEST_F(Guards, RetentionKeepsWhereARunMayGoBackTo) {
  const Result result = train(with({"--run", "run"}, {"guards.rollback=true", "guards.limit_in_a_row=4",
                                                      "checkpoint.every=1", "checkpoint.keep_last=1"}),
                              {"FAKE_SPIKE=10,14,15,16,17"});
  EXPECT_TRUE(test::has_facts(result.err, {"rolls back", "step 13 "}));
  // The checkpoint from before step 10 is kept too, while a limit may still refer to it.
  EXPECT_EQ(checkpoint("run", 9).size(), 6u);
  EXPECT_EQ(checkpoint("run", 12).size(), 0u);
  EXPECT_EQ(checkpoint("run", 19).size(), 0u);
  EXPECT_EQ(checkpoint("run", 20).size(), 6u);
  train(with({"--run", "ends"}, {"checkpoint.every=1", "checkpoint.keep_last=1"}), {"FAKE_SPIKE=10"});
  EXPECT_EQ(checkpoint("ends", 9).size(), 0u) << "without rollbacks none is wanted";
}

TEST_F(Guards, RollbacksHaveAnEnd) {
  const Words words = with({"--run", "run"}, {"guards.rollback=true", "guards.rollbacks=2", "guards.limit_in_a_row=2"});
  const Result ended = run(words, {"FAKE_SPIKE=12,13,16,17,20,21"});
  EXPECT_EQ(ended.status, 7) << ended.err;
  EXPECT_TRUE(contains(ended.err, "(rollback 2 of 2)")) << ended.err;
  EXPECT_TRUE(test::has_facts(ended.err, {"error: 2 updates", "step 12", "after 2 rollbacks", "(guards.rollbacks)"}));
  const Result none =
      run(with({"--run", "none"}, {"guards.rollback=true", "guards.limit_in_a_row=2", "checkpoint.every=0"}),
          {"FAKE_SPIKE=12,13"});
  EXPECT_EQ(none.status, 7);
  EXPECT_TRUE(test::has_facts(none.err, {"no complete checkpoint", "before step 12"}));
}

TEST_F(Guards, ALossThatStandsStillIsSaid) {
  write_shard(folder_ / "data/few.bin", 17, 1);  // four samples: the same in every step, in another order
  const Result result = train({"--run", "run", "data.train.path=" + (folder_ / "data/few.bin").string(),
                               "optimizer.lr=0", "guards.frozen_steps=6"});
  EXPECT_TRUE(
      test::has_facts(result.err, {"step 6: ", " 2.50557 ", "6 steps", "(guards.frozen_steps)", "learning rate", "0"}));
  EXPECT_EQ(result.err.find("guards.frozen_steps"), result.err.rfind("guards.frozen_steps")) << "once";
  EXPECT_EQ(train({"--run", "moves", "guards.frozen_steps=6"}).err, "");
}

}  // namespace
}  // namespace fake
}  // namespace llmc
