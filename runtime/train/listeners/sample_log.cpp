#include "train/listeners/sample_log.h"

#include <fmt/format.h>

#include "error.h"
#include "train/metrics.h"

namespace llmc {

/// Rank 0 samples. If a pass gathers weights, all ranks run it as often as rank 0 does. No rank begins the next step
/// before, because waits in a step are limited.
void SampleLog::reported(const StepReport& report) {
  const std::int64_t step = report.step.number;
  if (report.left || !holds(step)) return;
  of_.ranks.at(step, "sampling");
  of_.session.gather_weights();
  sample(step);
  of_.ranks.barrier(Rendezvous::Wait::unlimited);
}

void SampleLog::sample(std::int64_t step) {
  const bool together = of_.session.passes_together();
  const auto another_pass = [&](bool mine) {
    return !together ? mine : !of_.ranks.broadcast(mine ? "+" : "", 0).empty();
  };
  if (!of_.folder) {
    while (another_pass(false)) of_.session.follow_logits();
    return;
  }
  const auto samples =
      of_.sampling.run(of_.session, step, [&] { return !another_pass(of_.signals.stop_signal() == 0); });
  if (!samples) return;
  another_pass(false);
  for (std::size_t i = 0; i < samples->size(); ++i) {
    const Sample& sample = (*samples)[i];
    const std::string shown = of_.sampling.shown(sample);
    of_.console.text(fmt::format("--- sample at step {}: {}", step, shown));
    try {
      of_.folder->append_sample(format_sample(step, sample));
      of_.folder->events().add_text(step, fmt::format("samples/{}", i + 1), shown);
    } catch (const Failure& failure) {
      of_.console.warning(fmt::format("{}. Training continues", failure.what()));
    }
  }
}

}  // namespace llmc
