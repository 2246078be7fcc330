// Records the launches of selected steps, for a profiler or a timeline.
#pragma once

#include "step/session.h"
#include "step/timeline.h"
#include "text/console.h"
#include "train/listeners/listener.h"

namespace llmc {

/// Turns a profiler's capture on for some steps.
class ProfiledSteps final : public StepListener {
 public:
  ProfiledSteps(Session& session, const StepWindow& steps)
      : session_(session), before_(steps.first), last_(steps.first + steps.count) {}

  bool holds(std::int64_t step) const override { return step == before_ || step == last_; }
  void begins(std::int64_t step) override {
    if (step == before_ + 1) session_.profile(true);
  }
  void finished(const FinishedStep& step) override {
    if (step.number == last_) session_.profile(false);
  }

 private:
  Session& session_;
  std::int64_t before_, last_;  // the step before the first, and the last
};

/// Passes the launches of some steps to a timeline. It is written after the last of them, or when the run ends earlier.
/// Failing to write the file is only a warning, because an observer must not end a run.
class TimedSteps final : public StepListener {
 public:
  TimedSteps(Timeline& timeline, const Session& session, Console& console)
      : timeline_(timeline), session_(session), console_(console) {}

  LaunchListener* launches(std::int64_t step) override;
  void finished(const FinishedStep& step) override {
    if (timeline_.ends_with(step.number)) write();
  }
  void ended() override { write(); }

 private:
  void write();

  Timeline& timeline_;
  const Session& session_;
  Console& console_;
};

}  // namespace llmc
