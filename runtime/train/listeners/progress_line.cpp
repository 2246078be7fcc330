#include "train/listeners/progress_line.h"

#include <algorithm>
#include <cmath>

#include "host/clock.h"

namespace llmc {

namespace {

constexpr double kRefreshSeconds = 0.1;  // of the line on a terminal

}  // namespace

ProgressLine::ProgressLine(const Of& of) : of_(of), began_(process_seconds()) {}

double ProgressLine::Of::steps_after(std::int64_t step) const {
  return static_cast<double>(phase_last - step) + static_cast<double>(tokens_after) / static_cast<double>(batch_tokens);
}

void ProgressLine::show(const StepReport& report, bool keep) {
  const double now = process_seconds();
  if (!keep && (!of_.console.terminal() || now - shown_ < kRefreshSeconds)) return;
  shown_ = now;
  const FinishedStep& step = report.step;
  Progress progress;
  progress.step = step.number;
  progress.steps = of_.stop;
  progress.loss = recent_.steps ? recent_.sum / static_cast<double>(recent_.steps) : step.results.loss;
  if (recent_.steps > 1) progress.largest = recent_.largest;
  progress.lr = step.lr;
  progress.grad_norm = step.results.grad_norm;
  progress.val_loss = loss_of(report.validation, of_.set);
  progress.tokens_per_second = static_cast<double>(recent_.tokens) / recent_.seconds;
  progress.mfu = of_.peaks.mfu(static_cast<double>(recent_.all_tokens) / recent_.seconds);
  progress.seconds_left = (now - began_) / static_cast<double>(step.of_start) * of_.steps_after(step.number);
  of_.console.progress(progress, keep);
}

void ProgressLine::reported(const StepReport& report) {
  const double loss = report.step.results.loss;
  recent_.seconds += report.step.seconds;
  recent_.tokens += report.step.targets;
  recent_.all_tokens += of_.batch_tokens;
  if (std::isfinite(loss)) {
    recent_.largest = recent_.steps++ ? std::max(recent_.largest, loss) : loss;
    recent_.sum += loss;
  }
  const bool last = report.step.number == of_.stop, evaluated = !report.validation.empty();
  show(report, last || evaluated || (report.line && !of_.console.terminal()));
  if (report.line || evaluated || report.left) recent_ = {};
}

}  // namespace llmc
