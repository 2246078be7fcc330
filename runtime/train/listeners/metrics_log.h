// Writes metrics.jsonl and TensorBoard's scalars, step by step.
#pragma once

#include "data/order/sources.h"
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
  /// References that outlive the log, and values constant over a run.
  struct Of {
    RunFolder& folder;
    Console& console;
    const spec::Spec& values;
    const Session& session;
    Peaks peaks;
    SampleNames sample_names;
    std::vector<SourceSize> sources;
    double seconds_before;  // of the earlier starts that this one resumes
  };
  explicit MetricsLog(const Of& of) : of_(of) {}

  void reported(const StepReport& report) override;

 private:
  StepMetrics metrics_of(const StepReport& report) const;

  Of of_;
  bool broken_ = false;  // the last line could not be written
};

}  // namespace llmc
