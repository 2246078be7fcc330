// Runs a Replay and records its collectives in the log on every run, also when a CUDA graph replays them without host
// calls.
#pragma once

#include <functional>
#include <vector>

#include "comm/collective_log.h"
#include "device/replay.h"

namespace llmc {

class NumberedReplay {
 public:
  /// `log`: null with one rank.
  NumberedReplay(Device& device, CollectiveLog* log) : replay_(device), log_(log) {}

  /// Same as Replay::run().
  void run(const std::function<void()>& work, bool eager = false) {
    if (!log_) return replay_.run(work, eager);
    bool called = false;
    const auto recorded = [&] {
      called = true;
      const CollectiveLog::Recording recording(*log_, collectives_);
      work();
    };
    replay_.run(recorded, eager);
    if (called) return;
    for (const Collective& collective : collectives_) log_->add(collective);
  }
  void forget() { replay_.forget(); }

 private:
  Replay replay_;
  CollectiveLog* const log_;
  std::vector<Collective> collectives_;  // of the last run that called them
};

}  // namespace llmc
