// Interface for observers of a run's steps: metrics, progress, samples, profile, timeline. None of them affects
// training.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "data/order/position.h"
#include "data/order/sample_id.h"
#include "device/timeline.h"
#include "device/types.h"
#include "program/outputs.h"
#include "train/audit.h"
#include "train/evaluation.h"
#include "train/task.h"

namespace llmc {

/// A step whose results have arrived.
struct FinishedStep {
  std::int64_t number;    // from 1 on: optimizer steps done, this one included
  std::int64_t of_start;  // same, without those before this start of the trainer
  double seconds;         // duration; from the end of the previous step if the step was sent before that
  double data_wait;       // seconds in which the loop waited for its batch
  double lr;              // of its update
  std::int64_t targets;   // trained on in this step
  std::span<const SampleId> samples;
  const DataPosition& position;  // after it
  std::optional<Audited> audited;
  const StepResults& results;
  std::span<const Figure> figures;      // as in Session::Finished
  std::optional<LossScale> loss_scale;  // as in Session::Finished
  std::span<const float> norms;         // as in Session::Finished
};

/// A finished step after the guards have judged it, and after its evaluation if one was due.
struct StepReport {
  FinishedStep step;
  bool line;  // metrics.every is due: its progress line is kept
  bool evaluated;
  std::span<const Validation> validation;    // of each set; empty: none, or interrupted
  std::span<const TaskResult> answers;       // of each task; same
  std::optional<double> evaluation_seconds;  // if there was one
  std::optional<double> saving_seconds;      // of the save between the previous step and this one
  bool left;                                 // the run rolls back to a checkpoint before this step
};

/// Called on the loop's thread, each listener in turn. Steps are numbered from 1.
class StepListener {
 public:
  virtual ~StepListener() = default;
  /// Returns whether step `step` + 1 must not be sent ahead: the listener needs the device in its state after step
  /// `step`, or starts or ends between the two. Must be equal on all ranks.
  virtual bool holds(std::int64_t /*step*/) const { return false; }
  /// Called before the step's batch is read.
  virtual void begins(std::int64_t /*step*/) {}
  /// Returns whether nothing of the step may run from recordings. Must be equal on all ranks.
  virtual bool eager(std::int64_t /*step*/) const { return false; }
  /// Called when the step is sent. Returns the listener for its launches; null: none. Only for eager steps.
  virtual LaunchListener* launches(std::int64_t /*step*/) { return nullptr; }
  virtual void finished(const FinishedStep& /*step*/) {}
  /// Called once after finished(), unless the run has rolled back in between.
  virtual void reported(const StepReport& /*report*/) {}
  /// Called when the run has ended or was stopped, but not after a failure.
  virtual void ended() {}
};

}  // namespace llmc
