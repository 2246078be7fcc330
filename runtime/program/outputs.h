// Lists the figures of a step other than its loss, by name. Metrics, TensorBoard and traces need nothing but a row.
#pragma once

#include "device/types.h"

namespace llmc {

struct StepOutput {
  const char* name;  // in metrics.jsonl, a trace's summary.json, and TensorBoard behind "train/"
  double StepResults::* value;
};

/// In the order of metrics.jsonl.
inline constexpr StepOutput kStepOutputs[] = {{"top1", &StepResults::top1},
                                              {"lse_mean", &StepResults::lse},
                                              {"lse_max", &StepResults::lse_max},
                                              {"entropy", &StepResults::entropy}};

}  // namespace llmc
