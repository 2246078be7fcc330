// Writes metrics.jsonl and TensorBoard's scalars, step by step.
#pragma once

#include "run/run_folder.h"
#include "spec/spec.h"
#include "step/session.h"
#include "text/console.h"
#include "train/listeners/listener.h"
#include "train/metrics.h"
#include "train/usage.h"

namespace llmc {

class MetricsLog final : public StepListener {
 public:
  /// Objects that outlive the log, and values that stay the same over a run.
  struct Of {
    RunFolder& folder;
    Console& console;
    const spec::Spec& values;
    const Session& session;
    Peaks peaks;
    std::int64_t samples_per_epoch;
    double seconds_before;  // of the starts that this one goes on from
  };
  explicit MetricsLog(const Of& of) : of_(of) {}

  void reported(const StepReport& report) override;

 private:
  StepMetrics metrics_of(const StepReport& report) const;

  Of of_;
  bool broken_ = false;  // the last line could not be written
};

}  // namespace llmc
