// Shows how far a run is: a line of progress, rewritten in place on a terminal.
#pragma once

#include <cstdint>
#include <string>

#include "text/console.h"
#include "train/listeners/listener.h"
#include "train/usage.h"

namespace llmc {

class ProgressLine final : public StepListener {
 public:
  struct Of {
    Console& console;
    Peaks peaks;
    std::int64_t stop;          // the last step
    std::int64_t batch_tokens;  // of a step
    std::string set;            // whose validation loss is shown
  };
  explicit ProgressLine(const Of& of);

  void reported(const StepReport& report) override;

 private:
  double left_seconds(const FinishedStep& step) const;
  void show(const StepReport& report, bool keep);

  Of of_;
  double began_, shown_ = 0;
  /// The steps since the last line that stays.
  struct Recent {
    std::int64_t steps = 0, tokens = 0, all_tokens = 0;  // all: with those that have no target
    double seconds = 0, sum = 0, largest = 0;            // losses: of the steps whose loss is finite
  } recent_;
};

}  // namespace llmc
