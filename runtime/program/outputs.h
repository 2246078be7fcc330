// Lists the figures of a step other than its loss, by name. Metrics, TensorBoard and traces need nothing but a row.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "device/types.h"

namespace llmc {

struct StepOutput {
  const char* name;  // in metrics.jsonl, a trace's summary.json, and TensorBoard behind "train/"
  double StepResults::* value;
};

/// Of every model, in the order of metrics.jsonl.
inline constexpr StepOutput kStepOutputs[] = {{"top1", &StepResults::top1},
                                              {"lse_mean", &StepResults::lse},
                                              {"lse_max", &StepResults::lse_max},
                                              {"entropy", &StepResults::entropy}};

/// A figure of one step.
struct Figure {
  const char* name;
  double value;
};

/// Returns the figures of kStepOutputs, then those that only this model reports: `names` and `values` are
/// ProgramInfo::reports and the content of Use::reports.
inline std::vector<Figure> figures_of(const StepResults& results, std::span<const char* const> names,
                                      std::span<const double> values) {
  std::vector<Figure> figures;
  for (const StepOutput& output : kStepOutputs) figures.push_back({output.name, results.*output.value});
  for (std::size_t i = 0; i < names.size(); ++i) figures.push_back({names[i], values[i]});
  return figures;
}

}  // namespace llmc
