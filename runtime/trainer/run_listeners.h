// The step listeners of a start: those of all its steps, and those of one phase, with its values.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "step/session.h"
#include "train/listeners/listener.h"
#include "train/listeners/step_times.h"
#include "train/signals.h"
#include "trainer/rank.h"
#include "trainer/startup/prepare.h"

namespace llmc {

/// Listeners that are called in the order in which they were added.
class ListenerList {
 public:
  std::span<StepListener* const> all() const { return all_; }

 protected:
  template <class Listener, class... Of>
  const Listener* add(Of&&... of) {
    auto listener = std::make_unique<Listener>(std::forward<Of>(of)...);
    const Listener* added = listener.get();
    all_.push_back(listener.get());
    owned_.push_back(std::move(listener));
    return added;
  }
  void add_all(std::span<StepListener* const> others) { all_.insert(all_.end(), others.begin(), others.end()); }

 private:
  std::vector<std::unique_ptr<StepListener>> owned_;
  std::vector<StepListener*> all_;
};

/// Profile, timeline and step times, whose steps may lie in several phases.
class StartListeners : public ListenerList {
 public:
  StartListeners(Rank& rank, const Prepared& p, const Machine& machine, Session& session, const RunFiles& files);

  /// Writes the file of --timing, if this rank has it. A failure is a warning: the run has ended well.
  void write_times(const Options& options, Console& console) const;
  /// Seconds of the earlier starts that this one resumes.
  double seconds_before() const { return seconds_before_; }

 private:
  const StepTimes* times_ = nullptr;  // null: not requested
  double began_, seconds_before_;
};

/// Those, and metrics, progress and samples, as far as the phase has them.
class PhaseListeners : public ListenerList {
 public:
  PhaseListeners(const StartListeners& of_start, Rank& rank, const Prepared& p, const Machine& machine,
                 Session& session, const RunFiles& files, const SignalWatch& signals);
};

}  // namespace llmc
