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

/// Makes some steps eager on every rank, and passes the launches of rank 0 to its timeline. It is written after the
/// last of them, or when the run ends earlier. Failing to write the file is only a warning, because an observer must
/// not end a run.
class TimedSteps final : public StepListener {
 public:
  /// `timeline`: null on other ranks.
  TimedSteps(const StepWindow& steps, Timeline* timeline, const Session& session, Console& console)
      : steps_(steps), timeline_(timeline), session_(session), console_(console) {}

  bool eager(std::int64_t step) const override {
    return !ended_ && step > steps_.first && step <= steps_.first + steps_.count;
  }
  LaunchListener* launches(std::int64_t step) override;
  void finished(const FinishedStep& step) override {
    if (step.number == steps_.first + steps_.count) write();
  }
  void ended() override { write(); }

 private:
  void write();

  const StepWindow steps_;
  Timeline* const timeline_;
  const Session& session_;
  Console& console_;
  bool ended_ = false;  // a rollback to before the last step repeats none of them
};

}  // namespace llmc
