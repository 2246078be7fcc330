#include "train/listeners/metrics_log.h"

#include <fmt/format.h>

#include "error.h"
#include "host/clock.h"
#include "host/limits.h"
#include "train/guards.h"

namespace llmc {

StepMetrics MetricsLog::metrics_of(const StepReport& report) const {
  const FinishedStep& step = report.step;
  const StepResults& results = step.results;
  const auto batch_tokens = static_cast<double>(of_.values.batch.tokens);
  StepMetrics metrics;
  metrics.step = step.number;
  metrics.results = results;
  metrics.figures = step.figures;
  if (step.loss_scale) metrics.loss_scale = step.loss_scale->last;
  metrics.lr = step.lr;
  metrics.tokens = static_cast<std::int64_t>(tokens_of(step.position));
  metrics.tokens_per_second = static_cast<double>(step.targets) / step.seconds;
  metrics.seconds = process_seconds();
  metrics.total_seconds = of_.seconds_before + metrics.seconds;
  metrics.ignored = 1 - static_cast<double>(step.targets) / batch_tokens;
  const std::int64_t length = of_.session.info().sequence_length;
  metrics.epochs = epochs_of(step.position, of_.sources, length);
  metrics.sources = uses_of(step.position, of_.sources, length);
  metrics.data_wait = step.data_wait;
  metrics.mfu = of_.peaks.mfu(batch_tokens / step.seconds);
  metrics.product_share = of_.peaks.product_share(batch_tokens / step.seconds);
  metrics.validation = report.validation;
  metrics.answers = report.answers;
  metrics.evaluation_seconds = report.evaluation_seconds;
  metrics.audited = step.audited;
  metrics.saving_seconds = report.saving_seconds;
  if (report.line) metrics.memory = {static_cast<std::int64_t>(of_.session.allocated_bytes()), resident_bytes()};
  if (results.skipped) metrics.skipped_samples = step.samples;
  metrics.sample_names = &of_.sample_names;
  metrics.skip_reason = skip_reason(results.skipped);
  if ((report.line || report.evaluated || results.skipped) && of_.values.metrics.per_parameter)
    metrics.parameter_norms = step.norms;
  return metrics;
}

void MetricsLog::reported(const StepReport& report) {
  const StepMetrics metrics = metrics_of(report);
  const std::span<const ParameterInfo> parameters = of_.session.info().parameters;
  try {
    of_.folder.append_metrics(format_metrics(metrics, parameters));
    of_.folder.events().add_scalars(metrics.step, metrics_scalars(metrics, parameters));
    broken_ = false;
  } catch (const Failure& failure) {  // a full disk must not end a run
    if (!broken_)
      of_.console.warning(
          fmt::format("{}. Training continues without metrics until the file can be written", failure.what()));
    broken_ = true;
  }
}

}  // namespace llmc
