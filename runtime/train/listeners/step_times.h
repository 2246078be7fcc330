// Records the duration of each step, for --timing.
#pragma once

#include <vector>

#include "host/clock.h"
#include "train/listeners/listener.h"

namespace llmc {

class StepTimes final : public StepListener {
 public:
  void finished(const FinishedStep& step) override {
    if (seconds_.empty()) first_end_ = process_seconds();
    seconds_.push_back(step.seconds);
  }

  /// Seconds from the start of the process to the end of the first step.
  double first_end() const { return first_end_; }
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  double first_end_ = 0;
  std::vector<double> seconds_;
};

}  // namespace llmc
