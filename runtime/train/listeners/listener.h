// Who watches the steps of a run: metrics, progress, samples, a profile, a timeline. None of them changes what is
// trained.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "data/position.h"
#include "device/timeline.h"
#include "device/types.h"
#include "train/audit.h"
#include "train/evaluation.h"

namespace llmc {

/// A step whose results have come back.
struct FinishedStep {
  std::int64_t number;                     // from 1 on: optimizer steps done, this one included
  std::int64_t of_start;                   // the same of this start alone
  double seconds;                          // that it took; sent ahead, from the end of the step before
  double data_wait;                        // seconds of it in which the loop waited for its batch
  double lr;                               // of its update
  std::int64_t targets;                    // trained on
  std::span<const std::uint64_t> samples;  // ids
  const DataPosition& position;            // after it
  std::optional<Audited> audited;
  const StepResults& results;
  std::span<const float> norms;  // as Session::Finished has them
};

/// A finished step that the guards have judged, after its evaluation where one was due.
struct StepReport {
  FinishedStep step;
  bool line;  // metrics.every is due: a line of progress stays
  bool evaluated;
  std::span<const Validation> validation;    // of each set; empty: none, or interrupted
  std::optional<double> evaluation_seconds;  // where there are some
  std::optional<double> saving_seconds;      // of the save between the step before and this one
  bool left;                                 // the run goes back to a checkpoint from before the step
};

/// Calls come from the loop's thread; of several listeners, each call goes to one after the other. Steps are numbered
/// from 1 on.
class StepListener {
 public:
  virtual ~StepListener() = default;
  /// Whether step `step` + 1 may not be sent ahead: the listener needs the device as step `step` leaves it, or begins
  /// or ends between them. The same on all ranks.
  virtual bool holds(std::int64_t /*step*/) const { return false; }
  /// The step comes next; its batch is read after this.
  virtual void begins(std::int64_t /*step*/) {}
  /// The step is sent now. Who hears of its launches; null: nobody.
  virtual LaunchListener* launches(std::int64_t /*step*/) { return nullptr; }
  virtual void finished(const FinishedStep& /*step*/) {}
  /// Once after finished(), unless the run has gone back before.
  virtual void reported(const StepReport& /*report*/) {}
  /// The run is at its end or was stopped, and has not failed.
  virtual void ended() {}
};

}  // namespace llmc
