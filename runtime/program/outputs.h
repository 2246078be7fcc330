// Figures of a step on its targets beside their loss, by name: a row is all that metrics, TensorBoard and traces need.
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
