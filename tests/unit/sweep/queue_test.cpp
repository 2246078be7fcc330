// Runs of a sweep from their start to their end, with a shell in place of trainers.
#include "compiler/tools/sweep/queue.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "../folder.h"
#include "run/folder_lock.h"

namespace llmc::sweep {
namespace {

using Words = std::vector<std::string>;

/// A sweep of shell scripts, one for each run, in the run's folder.
struct Scripts {
  explicit Scripts(Words of_runs) : scripts(std::move(of_runs)) {
    std::filesystem::create_directories(base.path / "logs");
    record.grid.axes = {{"lr", {}}};
    for (std::size_t run = 0; run < scripts.size(); ++run) {
      record.grid.axes[0].values.push_back(std::to_string(run + 1));
      record.runs.push_back({.folder = fmt::format("runs/{:04}", run + 1), .reason = {}, .loss = {}, .val_loss = {}});
      record.runs.back().steps = 12;
      std::filesystem::create_directories(base.path / record.runs.back().folder);
    }
  }

  Words in_shell(std::size_t run, const std::string& script) const {
    return {"/bin/sh", "-c", fmt::format("cd '{}'; {}", (base.path / record.runs[run].folder).string(), script)};
  }

  int work_off() {
    Work work{.folder = base.path, .places = 1, .rule = rule, .command = {}, .say = {}};
    work.command = [this](std::size_t run, std::size_t) { return in_shell(run, scripts[run]); };
    if (!evaluation.empty())
      work.evaluation = [this](std::size_t run, std::size_t) { return in_shell(run, evaluation); };
    work.say = [this](const std::string& line) { said += line + "\n"; };
    return sweep::work_off(record, work);
  }

  test::Folder base;
  Record record;
  Words scripts;
  std::string evaluation, said;
  std::optional<PruneRule> rule;
};

/// A line of metrics for a step.
std::string line(int step, const std::string& values) {
  return fmt::format("echo '{{\"step\":{},{}}}' >> metrics.jsonl; ", step, values);
}

const std::string kAborted = line(8, R"("loss":2.0,"val_loss":2.25)") + line(12, R"("loss":1.0)");

TEST(Queue, AnAbortedLastEvaluationIsRepeated) {
  Scripts sweep({kAborted, line(12, R"("loss":1.5,"val_loss":1.75)")});
  sweep.evaluation = R"(echo 'warning: a line'; echo '{"step":12,"loss":1.25}')";
  EXPECT_EQ(sweep.work_off(), 0) << sweep.said;
  EXPECT_EQ(sweep.record.runs[0].val_loss, 1.25) << sweep.said;
  EXPECT_EQ(sweep.record.runs[1].val_loss, 1.75);
  EXPECT_FALSE(std::filesystem::exists(sweep.base.path / "logs/0002.evaluation.txt"));
}

TEST(Queue, ALossOfAnEarlierStepIsNotTheRuns) {
  Scripts sweep({kAborted});
  EXPECT_EQ(sweep.work_off(), 0) << sweep.said;
  EXPECT_FALSE(sweep.record.runs[0].val_loss);
  sweep.evaluation = "echo 'error: no data'; exit 5";
  EXPECT_EQ(sweep.work_off(), 5);
  EXPECT_FALSE(sweep.record.runs[0].val_loss);
  EXPECT_NE(sweep.said.find("the evaluation failed: error: no data"), std::string::npos) << sweep.said;
}

const std::string kLow = line(3, R"("loss":1.0)"), kHigh = line(3, R"("loss":5.0)"), kWait = "sleep 0.5; ";

TEST(Queue, ARunThatHasDivergedEndsNoOther) {
  for (const int code : {7, 5}) {
    Scripts sweep({kLow + fmt::format("exit {}", code), kHigh + kWait});
    sweep.rule = PruneRule{0.5, 25};
    sweep.work_off();
    EXPECT_EQ(sweep.record.runs[1].state, State::finished) << sweep.said;
  }
}

TEST(Queue, ARunIsComparedOnceAShare) {
  Scripts sweep({kWait, kLow});
  sweep.base.write("runs/0001/metrics.jsonl", "{\"step\":3,\"loss\":5.0}\n");
  sweep.base.write("runs/0002/metrics.jsonl", "{\"step\":3,\"loss\":1.0}\n");
  sweep.record.runs[1].state = State::finished;
  sweep.rule = PruneRule{0.5, 25};
  sweep.work_off();
  EXPECT_EQ(sweep.record.runs[0].state, State::finished) << sweep.said;
  // At the next share it is.
  sweep.record.runs[0].state = State::stopped;
  sweep.base.write("runs/0002/metrics.jsonl", "{\"step\":6,\"loss\":1.0}\n");
  sweep.scripts[0] = line(6, R"("loss":5.0)") + "exec sleep 100";
  sweep.work_off();
  EXPECT_EQ(sweep.record.runs[0].state, State::pruned) << sweep.said;
}

/// Runs that other machines train: their folders tell how they stand.
TEST(Queue, FoldersTellWhatRunsAndWhatHasFailed) {
  Scripts sweep(Words(4));
  for (const auto& run : sweep.record.runs) {
    sweep.base.write(run.folder + "/state/model", "");
    sweep.base.write(run.folder + "/metrics.jsonl", "{\"step\":3,\"loss\":5.0}\n");
  }
  const FolderLock held(sweep.base.path / "runs/0001", "", [](const std::string&) {});
  sweep.record.runs[2].state = State::stopped;
  sweep.record.runs[2].step = 3;
  sweep.record.runs[3].state = State::diverged;
  look_up(sweep.record, sweep.base.path);
  std::vector<State> states;
  for (const auto& run : sweep.record.runs) states.push_back(run.state);
  EXPECT_EQ(states, (std::vector<State>{State::running, State::failed, State::stopped, State::diverged}));
}

}  // namespace
}  // namespace llmc::sweep
