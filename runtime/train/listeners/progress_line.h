// Shows the progress of a run as one line, rewritten in place on a terminal.
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
    std::int64_t stop;          // last step
    std::int64_t phase_last;    // last step of the phase
    std::int64_t batch_tokens;  // tokens per step of the phase
    std::int64_t tokens_after;  // of the phases after it, up to `stop`
    std::string set;            // set whose validation loss is shown

    /// Steps of the phase's batch that the run still has after `step`, which is of this phase.
    double steps_after(std::int64_t step) const;
  };
  explicit ProgressLine(const Of& of);

  void reported(const StepReport& report) override;

 private:
  void show(const StepReport& report, bool keep);

  Of of_;
  double began_, shown_ = 0;
  /// Steps since the last kept line.
  struct Recent {
    std::int64_t steps = 0, tokens = 0, all_tokens = 0;  // all: including those without a target
    double seconds = 0, sum = 0, largest = 0;            // losses: only finite ones
  } recent_;
};

}  // namespace llmc
